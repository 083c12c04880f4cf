"""The values that travel: trajectories and groups in the words of the canonical record.

A dump's record is turned into these once, at the edge (`io/`). Fields that a dump lacks are None: never guessed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

MAX_REWARD = 1e100
"""In size: squares and weighted sums of a group's rewards then stay far from the largest double."""


class GroupKey(NamedTuple):
    """What identifies a group within a dump."""

    step: int | None
    group_id: str

    def __str__(self) -> str:
        return self.group_id if self.step is None else f"{self.group_id} (step {self.step})"


class ToolCall(NamedTuple):
    """One tool call of a message; `arguments` is the JSON text as the policy wrote it."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a trajectory."""

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """What all trajectories of a group were asked, and where its repository can be found."""

    instance_id: str | None = None
    problem_statement: str | None = None
    repo: str | None = None
    base_commit: str | None = None
    docker_image: str | None = None
    workdir: str | None = None
    test_command: str | None = None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One attempt, with the heavy columns that the grader may look at."""

    trajectory_id: str
    reward: float
    passed: bool
    messages: Sequence[Message] = ()
    """A tuple, or a sequence that makes long logs' messages when they are asked for (`io/packed_logs.py`)."""
    model_patch: str | None = None
    """None: unknown. Empty: the attempt made none."""
    test_output: str | None = None
    exit_status: str | None = None
    is_truncated: bool | None = None
    where: str = ""
    """`file:line` of the record, for messages to people."""


@dataclass(frozen=True, slots=True)
class Group:
    """The valid trajectories of one task that were sampled together."""

    key: GroupKey
    task: Task
    trajectories: tuple[Trajectory, ...]

    @property
    def passing(self) -> tuple[Trajectory, ...]:
        """The trajectories that passed, in the order of the dump."""
        return tuple(trajectory for trajectory in self.trajectories if trajectory.passed)

    @property
    def has_evidence(self) -> bool:
        """Whether any passing trajectory shows what it did: a patch, messages, or what its tests printed."""
        return any(
            (one.model_patch or "").strip() or one.messages or (one.test_output or "").strip()
            for one in self.passing
        )

    @property
    def failing(self) -> tuple[Trajectory, ...]:
        """The trajectories that failed, in the order of the dump."""
        return tuple(trajectory for trajectory in self.trajectories if not trajectory.passed)
