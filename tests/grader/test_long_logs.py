"""A group whose logs are out of memory: the tools show what they show of one in memory, and hold little at once."""

import asyncio
import gc
import json
import tracemalloc
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gagar_cli.core.evidence import Coordinate
from gagar_cli.core.schema import Group, Message, ToolCall, Trajectory
from gagar_cli.grader.acceptance import Acceptance, SentBackError
from gagar_cli.grader.material import compose_material
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.workspace import Workspace
from gagar_cli.io.packed_logs import LogStore, PackedLog

N_TURNS = 30
FIX = "    return sum(row.value for row in rows)"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("overview", {}),
    ("list_turns", {"candidate": "c01"}),
    ("list_turns", {"candidate": "c02", "start": 20}),
    ("view_turns", {"candidate": "c01", "first": 3}),
    ("view_turns", {"candidate": "c01", "first": 3, "start": 2_001}),
    ("view_turns", {"candidate": "c02", "first": 28, "last": 40, "start": 5_000}),
    ("view_turns", {"candidate": "c02", "first": 5, "start": 4, "column": 3}),
    ("view_turns", {"candidate": "c02", "first": 31}),
    ("view_test_output", {"candidate": "f01"}),
    ("view_test_output", {"candidate": "c01", "start": 77}),
    ("view_patch", {"candidate": "c02"}),
    ("search", {"text": "needle of c"}),
    ("search", {"text": "needle of c[^x]*9$", "regex": True}),
    ("search", {"text": "^> turn 1", "regex": True, "where": "turns"}),
    ("search", {"text": "nowhere"}),
    ("search", {"text": "line 77 ", "where": "test_output"}),
    ("search", {"text": "a line", "candidate": "c01"}),
    ("compare_patches", {}),
]


def with_log(trajectory: Trajectory, n_chars: int) -> Trajectory:
    name = trajectory.trajectory_id[-4:]
    messages = [Message("user", "total() ignores row.value")]
    for turn in range(1, N_TURNS + 1):
        command = "git show origin/main" if turn == N_TURNS else f"pytest -k {turn}"
        call = ToolCall("bash", json.dumps({"command": command}))
        log = [f"a line {number} of turn {turn}" for number in range(n_chars // 24)]
        log[len(log) // 2] = f"needle of c{name} {turn}"
        shown = FIX if turn == N_TURNS else ""
        messages += [
            Message("assistant", f"turn {turn}\n" * (turn % 3), (call,)),
            Message("tool", "\n".join(log)),
            Message("user", f"{shown}\nexit code: 0"),
        ]
    output = "\n".join(f"line {number} of the test output" for number in range(n_chars // 24))
    return replace(trajectory, messages=tuple(messages), test_output=output)


def in_memory(group: Group, n_chars: int = 60_000) -> Group:
    return replace(group, trajectories=tuple(with_log(one, n_chars) for one in group.trajectories))


def out_of_memory(group: Group) -> Group:
    made = replace(group, trajectories=tuple(map(LogStore().packed, group.trajectories)))
    assert all(isinstance(one.messages, PackedLog) for one in made.trajectories)
    return made


def shown(workspace: Workspace, name: str, arguments: Mapping[str, Any]) -> str:
    return asyncio.run(Toolbox(workspace, None).call(name, arguments))


@pytest.fixture
def both(group, repository) -> tuple[Workspace, Workspace]:
    plain = in_memory(group)
    return tuple(Workspace(one, seed=0, repository=repository) for one in (plain, out_of_memory(plain)))


@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_a_tool_shows_the_same(both, name, arguments):
    plain, packed = both
    assert shown(packed, name, arguments) == shown(plain, name, arguments) != ""


def test_material_for_judges_without_tools_is_the_same(both):
    plain, packed = both
    assert compose_material(packed) == compose_material(plain)


@pytest.mark.parametrize(
    ("number", "line"), [(3, 1_250), (3, 1), (3, None), (30, 2), (31, 1), (0, 1), (3, 9_999)]
)
def test_a_coordinate_leads_to_the_same_lines(both, number, line):
    plain, packed = both
    for kind in ("turn", "test_output"):
        place = Coordinate(kind, "c01", number=number, line=line)
        assert packed.lines_near(place) == plain.lines_near(place)


def accusation(workspace: Workspace, turn: int, anchor: str) -> dict[str, Any]:
    scores = dict.fromkeys(("approach", "precision", "minimality", "side_effects", "consistency"), 5)
    common = {"claim": "it was copied", "supports": ["integrity_violation"]}
    entries = [
        {
            "id": name,
            "scores": scores,
            "flags": {"integrity_violation": True},
            "findings": [
                {"kind": "turn", "at": f"{name}:turn:{turn}", "anchor": anchor, **common},
                {"kind": "patch", "at": f"{name}:src/table.py:0", "anchor": "modified file", **common},
            ],
            "rationale": "copied",
        }
        for name in workspace.candidates
    ]
    return {"candidates": entries}


def test_an_accusation_is_proven_or_not_as_in_memory(both):
    for workspace in both:
        Acceptance(workspace).accept(accusation(workspace, N_TURNS, "git show origin/main"))
        with pytest.raises(SentBackError, match="integrity_violation has no verified finding"):
            Acceptance(workspace).accept(accusation(workspace, 3, "pytest -k 3"))


def test_the_tools_hold_little_at_once_and_no_more_after_many_calls(group, repository):
    workspace = Workspace(out_of_memory(in_memory(group, 400_000)), seed=0, repository=repository)
    gc.collect()
    tracemalloc.start()
    held = []
    for _ in range(2):
        for name, arguments in CALLS:
            shown(workspace, name, arguments)
        Acceptance(workspace).accept(accusation(workspace, N_TURNS, "git show origin/main"))
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held[1] < held[0] + 20_000
    # Of 36 million characters in turns of 400,000: the lines of one turn and what is made of them.
    assert held[1] < 700_000
    assert peak < 30 * 400_000


def test_a_group_that_is_done_is_gone_without_the_collector(group, repository):
    workspace = Workspace(out_of_memory(in_memory(group)), seed=0, repository=repository)
    toolbox = Toolbox(workspace, None)
    asyncio.run(toolbox.call("overview", {}))
    left = weakref.ref(workspace)
    gc.disable()
    try:
        del workspace, toolbox
        assert left() is None
    finally:
        gc.enable()
