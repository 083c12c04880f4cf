from collections.abc import Iterator
from dataclasses import replace

from gagar_cli.core.schema import Group, GroupKey, Message, Task, Trajectory
from gagar_cli.grader.loop import GroupLimits
from gagar_cli.grader.rules import GradingRules
from gagar_cli.grading_sizes import measure

REPLY = Message("assistant", "x" * 1_000)


class _Log(tuple[Message, ...]):
    """Knows how many of its messages were gone through at most."""

    n_read = 0

    def __iter__(self) -> Iterator[Message]:
        for number, message in enumerate(super().__iter__(), 1):
            self.n_read = max(self.n_read, number)
            yield message


def material_tokens(*logs: tuple[Message, ...]) -> float:
    attempts = [Trajectory(f"t{number}", 1.0, True, log, "patch") for number, log in enumerate(logs)]
    failed = replace(attempts[0], trajectory_id="f", passed=False, reward=0.0, messages=())
    group = Group(GroupKey(None, "g"), Task(problem_statement="fix it"), (*attempts, failed))
    (talk,) = measure(group, GradingRules(), GroupLimits()).gradings
    return talk.material_tokens


def test_of_a_long_log_no_more_is_read_than_is_counted():
    long = _Log([REPLY] * 500)
    short = (REPLY,) * 6
    assert material_tokens(long, long) == material_tokens(short, short)
    assert long.n_read == len(short)
    assert material_tokens(short, (REPLY,)) < material_tokens(short, short)
