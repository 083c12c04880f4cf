"""What a growing dump's index holds: rows, the trajectories that they make, and what a look at the files found."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from gagar_cli.core.schema import GroupKey
from gagar_cli.io.formats.facts import is_inferred
from gagar_cli.io.records import MISSING, Fields, Scalars
from gagar_cli.io.sources import Place
from gagar_cli.io.tails import Tail


@dataclass(frozen=True, slots=True)
class Row:
    """One record of the index."""

    tail: Tail
    place: Place
    item: int | None
    trajectory_id: str
    scalars: Scalars
    is_eligible: bool
    light: Mapping[str, object] | None = None
    """With joined files, what its verdict rests on, before they are laid over it."""

    @property
    def is_awaited(self) -> bool:
        """Whether joined files have yet to give its verdict."""
        found = self.scalars
        is_known = found.resolved is not None or found.infra_failure or found.mask_sample
        return self.light is not None and not is_known

    def is_told(self, judged: Mapping[Tail, bool], fields: Fields, *, has_joined: bool) -> bool:
        """Whether its verdict counts, else its reward: that of a record to which no file joins one, of `judged` files too.

        `judged`: files of which any record has a verdict, and whether one of its own; `has_joined`: whether joined files have any.
        """
        if self.scalars.resolved is not None:
            return True
        if self.light is None or self.scalars.reward is None:
            return self.tail in judged
        is_by_own = not has_joined and judged.get(self.tail, False)
        return is_by_own or fields.find(self.light, "resolved") is not MISSING

    def as_inferred(self) -> "Row":
        """The row as its format alone has it, where no joined file gave a verdict in the end."""
        if self.light is None or not is_inferred(self.light, is_native=self.tail.run is not None):
            return self
        inferred = self.light.get("resolved")
        return replace(self, scalars=self.scalars._replace(resolved=inferred is True))

    @property
    def order(self) -> tuple[Any, ...]:
        """Its place among the records of a whole dump."""
        place = self.place
        return (*self.tail.order, place.line, place.offset or 0, self.item or 0)

    @property
    def where(self) -> str:
        """Its place as messages tell it."""
        return f"{self.tail.name}:{self.place.line}" + ("" if self.item is None else f"[{self.item}]")

    @property
    def verdict(self) -> str:
        """What the segments of one trajectory must agree in."""
        found = self.scalars
        return repr((found.reward, found.resolved, found.infra_failure, found.mask_sample))


@dataclass(frozen=True, slots=True)
class Event:
    """What a look found: a record of a group, a mark of its end, or that records of it hold no longer."""

    kind: Literal["record", "end_of_group", "withdrawn"]
    key: GroupKey
    row: Row | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A trajectory of a group: its rows (several where it has segments), and how it counts by now."""

    rows: tuple[Row, ...]
    passed: bool
    invalid: bool
    reward: float

    @property
    def trajectory_id(self) -> str:
        """Its id."""
        return self.rows[0].trajectory_id

    @property
    def is_eligible(self) -> bool:
        """Whether it meets the run's condition."""
        return self.rows[0].is_eligible


def judge_member(
    rows: Sequence[Row], *, has_resolved: bool, has_reward: bool, pass_threshold: float
) -> Member:
    """The trajectory of these rows, judged as `io/index.py` judges a whole dump's.

    `has_resolved`, `has_reward`: whether any record of its file has that field, respectively a value of it.
    """
    rows = sorted(rows, key=lambda row: -1 if row.scalars.segment is None else row.scalars.segment)
    found = rows[0].scalars
    reward = found.reward
    if not has_reward and found.resolved is not None:
        reward = float(found.resolved)
    number = math.nan if reward is None else reward
    is_unknown = has_resolved and found.resolved is None
    is_invalid = found.infra_failure or found.mask_sample or is_unknown or math.isnan(number)
    passed = bool(found.resolved) if has_resolved else number >= pass_threshold
    return Member(tuple(rows), passed and not is_invalid, is_invalid, math.nan if is_invalid else number)
