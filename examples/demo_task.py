"""What a demo task and an attempt at it consist of; the tasks themselves are in `attempts/`."""

from collections.abc import Callable
from dataclasses import dataclass

from demo_session import Session


@dataclass(frozen=True)
class Attempt:
    """One attempt and how it must end when it is built."""

    play: Callable[[Session], None]
    passes: bool | None
    """Whether the hidden tests pass; None: the infrastructure failed before they ran."""
    exit_status: str = "submitted"


@dataclass(frozen=True)
class DemoTask:
    """An issue, the tests that decide, and the attempts in the order of the dump."""

    instance_id: str
    issue: str
    hidden_tests: dict[str, str]
    """Test methods and classes that are added to a test file, by its path."""
    attempts: tuple[Attempt, ...]
