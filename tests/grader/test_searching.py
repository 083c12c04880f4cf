import json
import time
from dataclasses import replace

import pytest

from gagar_cli.core.schema import Group, Message, ToolCall
from gagar_cli.grader import searching
from gagar_cli.grader.patterns import expression, literal
from gagar_cli.grader.searching import MAX_SEARCH_CHARS, MAX_SEARCH_HITS, search_lines
from gagar_cli.grader.workspace import Workspace


def with_result(group: Group, text: str) -> Workspace:
    """Every attempt with a turn that got this result."""
    log = (Message("assistant", "look"), Message("tool", text))
    attempts = tuple(replace(one, messages=log) for one in group.trajectories)
    return Workspace(replace(group, trajectories=attempts), seed=0, repository=None)


def test_a_hit_has_the_coordinate_of_its_line(group):
    workspace = with_result(group, "nothing\nthe needle\n")
    assert search_lines(workspace, literal("needle"), "turns", "c02")[:] == ["c02:turn:1:4│the needle"]


def test_what_is_on_most_lines_is_stopped_and_counted(group):
    workspace = with_result(group, "a line\n" * 1_500)
    found = search_lines(workspace, expression("^a line$"), "turns", None)
    assert found[0] == "2000 lines: c01 1500, c02 500"
    assert found[1] == "c01:turn:1:3│a line"
    assert found[-1] == f"stopped at {MAX_SEARCH_HITS:,} lines: search for something rarer"
    assert len(found) == MAX_SEARCH_HITS + 2


def test_long_lines_are_stopped_before_they_fill_the_memory(group):
    workspace = with_result(group, f"{'x' * 3_000_000}\n" * 4)
    found = search_lines(workspace, literal("x"), "turns", None)
    assert len(found) - 1 == MAX_SEARCH_CHARS // 3_000_000 + 1
    assert found[-1] == "stopped at 7 lines: search for something rarer"


@pytest.mark.parametrize("where", ["turns", "test_output"])
def test_a_search_that_takes_too_long_is_stopped_and_says_so(group, monkeypatch, where):
    workspace = with_result(group, "the needle")
    monkeypatch.setattr(searching, "MAX_SEARCH_SECONDS", 0.0)
    found = search_lines(workspace, literal("no such text"), where, None)
    assert found[:] == ["stopped after 0 s: search one candidate, or something simpler"]


def test_hits_in_every_call_of_a_turn_are_counted_in_one_go(group):
    """Counting anew for each of them, this would take some seconds."""
    calls = tuple(ToolCall("bash", json.dumps({"command": f"x {n}"})) for n in range(2_500))
    log = (Message("user", "?"), Message("assistant", "two\nlines", calls), Message("tool", "x"))
    first, *others = group.trajectories
    workspace = Workspace(
        replace(group, trajectories=(replace(first, messages=log), *others)), seed=0, repository=None
    )
    name = next(key for key, value in workspace.trajectory_ids.items() if value == first.trajectory_id)
    began = time.thread_time()
    found = search_lines(workspace, literal("x"), "turns", name)
    assert time.thread_time() - began < 0.5
    assert str(found[1]).startswith(f"{name}:turn:1:3│")
    assert str(found[MAX_SEARCH_HITS]).startswith(f"{name}:turn:1:{MAX_SEARCH_HITS + 2}│")
