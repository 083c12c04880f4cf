"""How a group is graded, whatever the endpoint: the mode, the rubric, integrity votes, repeats."""

from dataclasses import dataclass, replace
from typing import Literal

from gagar_cli.core.rubric import PAPER, Rubric
from gagar_cli.core.sampling import is_drawn
from gagar_cli.core.schema import GroupKey

Mode = Literal["agentic", "groupwise-static", "pointwise-static", "pointwise-agentic"]
IntegrityScope = Literal["mixed", "all", "off"]


@dataclass(frozen=True, slots=True)
class GradingRules:
    """What a ranking depends on beside the group, the endpoint and the sandbox."""

    mode: Mode = "agentic"
    """`agentic`: one conversation with tools about the whole group. `groupwise-static`: one call with the material in
    it. `pointwise-static` and `pointwise-agentic`: the same, one attempt at a time and without the failing ones."""
    rubric: Rubric = PAPER
    repeats: int = 1
    """Gradings of a group under different blind orders; more than one are put together by code."""
    repeat_share: float = 1.0
    """Of the groups, so many are graded `repeats` times; the others once."""
    integrity: IntegrityScope = "mixed"
    """Whose passing attempts are checked: those of mixed groups, of all-pass groups too, or none."""
    integrity_votes: int = 2
    """Independent conversations that must all prove a violation before it counts."""
    ranks_all_pass: bool = False
    """Rank two passing attempts also where none failed: for comparing them, not for advantages."""

    def record(self) -> dict[str, object]:
        """The settings as a ledger compares them."""
        return {
            "mode": self.mode,
            "rubric": f"{self.rubric.name}@{self.rubric.digest}",
            "repeats": self.repeats,
            **({"repeat_share": self.repeat_share} if self.repeat_share < 1 else {}),
            "integrity": self.integrity,
            "integrity_votes": self.integrity_votes,
        }

    def of_group(self, key: GroupKey) -> "GradingRules":
        """The rules as they are for one group: repeats only where it is drawn for them."""
        if self.repeats == 1 or is_drawn(f"{key.step}\x1f{key.group_id}", self.repeat_share, salt="repeats"):
            return self
        return replace(self, repeats=1)

    @property
    def is_static(self) -> bool:
        """Whether the judge has the material and no tools."""
        return self.mode.endswith("-static")

    @property
    def is_pointwise(self) -> bool:
        """Whether each attempt is judged alone."""
        return self.mode.startswith("pointwise-")
