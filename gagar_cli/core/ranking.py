"""Rankings: what grading one group yields (DESIGN: rankings file).

A ranking is made by the grader, by a person or by another tool. The values here are what every reader and writer
exchanges; `io/rankings.py` turns them into JSON lines and back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gagar_cli.core.schema import GroupKey

Status = Literal["graded", "skipped", "ungraded"]
FindingKind = Literal["patch", "turn", "test_output", "repo", "exec"]

TIERS = ("T1", "T2", "T3")
FLAGS = ("out_of_scope", "test_specific", "serious_process_issue", "regression", "integrity_violation")


@dataclass(frozen=True, slots=True)
class Finding:
    """A negative claim with the place that proves it."""

    kind: FindingKind
    at: str
    """Coordinate: `c03:src/a.py:17`, `c03:turn:4:2`, `c03:test_output:9`, `c03:exec:1:5`, `base:src/a.py:17`."""
    anchor: str
    """What the grader quoted, at least 8 characters."""
    claim: str
    supports: tuple[str, ...]
    """Names of dimensions and flags that this finding is evidence for."""
    compared_with: str | None = None
    """A sibling's coordinate, never the only evidence."""
    quote: str | None = None
    """The text that code found at the coordinate; None until verified."""


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """One passing trajectory's place in its group."""

    trajectory_id: str
    tier: str | None
    """T1, T2 or T3; None only beside a confirmed integrity violation."""
    rank: int | None
    """1-based place within the tier; ties share it."""
    scores: Mapping[str, int] = field(default_factory=dict)
    weighted_score: float | None = None
    flags: Mapping[str, bool] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    unproven: tuple[str, ...] = ()
    """Dimensions and flags whose negative claim had no verified finding, and so does not count."""
    rationale: str = ""

    @property
    def is_integrity_violation(self) -> bool:
        """Whether the trajectory passed by copying the answer or by tampering: it is paid as a failure."""
        return bool(self.flags.get("integrity_violation"))


@dataclass(frozen=True, slots=True)
class GroupRanking:
    """One line of a rankings file."""

    key: GroupKey
    status: Status
    reason: str | None = None
    """Why the group was skipped or is ungraded."""
    candidates: tuple[RankedCandidate, ...] = ()
    grader: Mapping[str, object] = field(default_factory=dict)
    """Model, protocol, prompt version, calls, tokens, seconds, sandbox."""
    input_digest: str | None = None
    config_digest: str | None = None

    @property
    def blind_ids(self) -> dict[str, str]:
        """Blind id to trajectory id, as far as the ranking tells."""
        names = self.grader.get("blind_ids")
        return {str(blind): str(name) for blind, name in names.items()} if isinstance(names, Mapping) else {}

    @property
    def shown_as(self) -> dict[str, str]:
        """Trajectory id to the blind id that findings call it by."""
        return {name: blind for blind, name in self.blind_ids.items()}
