"""From a submission to the line of the rankings file: every kind of finding is kept where code found it, as it stands."""

import json
from dataclasses import replace

import pytest

from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.core.schema import Group, GroupKey, Message, ToolCall
from gagar_cli.grader.acceptance import Acceptance, SentBackError
from gagar_cli.grader.workspace import Workspace
from gagar_cli.io.ranking_records import ranking_to_record

LOG = (
    Message("user", "total() ignores row.value"),
    Message("assistant", "I look.", (ToolCall("bash", '{"command": "rm -rf tests"}'),)),
    Message("tool", "removed 12 files"),
)


@pytest.fixture
def workspace(group: Group, repository) -> Workspace:
    changed = tuple(replace(one, messages=LOG) for one in group.trajectories)
    workspace = Workspace(replace(group, trajectories=changed), seed=0, repository=repository)
    for name in workspace.candidates:
        workspace.next_execution(name, ["first line of it", "AssertionError: 3 != 4"])
    return workspace


def blind(workspace: Workspace, name: str) -> str:
    return next(key for key, value in workspace.trajectory_ids.items() if value.endswith(name))


def kept(workspace: Workspace, *findings: dict, max_reasks: int = 0, **scores: int) -> dict:
    """What the rankings file says of the candidate with the debug print, after these claims about it."""
    noisy = blind(workspace, "noisy")
    entries = [
        {
            "id": name,
            "scores": dict.fromkeys(DIMENSIONS, 5) | (scores if name == noisy else {}),
            "findings": [{"claim": "so it is", **one} for one in findings] if name == noisy else [],
            "rationale": "",
        }
        for name in workspace.candidates
    ]
    candidates = Acceptance(workspace, max_reasks).accept({"candidates": entries})
    record = ranking_to_record(GroupRanking(GroupKey(7, "tables"), "graded", candidates=candidates))
    line = json.loads(json.dumps(record))
    return next(one for one in line["candidates"] if one["trajectory_id"].endswith("noisy"))


@pytest.mark.parametrize(
    ("kind", "at", "anchor", "kept_at", "quote"),
    [
        (
            "patch", "{c}:src/table.py:1", "debugging the rows",
            "{c}:src/table.py:2", '    print("debugging the rows", rows)',
        ),
        ("patch", "{c}:src/table.py:-2", "return sum(rows)", "{c}:src/table.py:-2", "    return sum(rows)"),
        ("patch", "{c}:src/table.py:0", "modified file", "{c}:src/table.py:0", "modified file +2 -1"),
        ("repo", "base:src/table.py:6", "def label(row):", "base:src/table.py:5", "def label(row):"),
        ("repo", "{c}:src/table.py:7", "def label(row):", "{c}:src/table.py:6", "def label(row):"),
        ("turn", "{c}:turn:1", "rm -rf tests", "{c}:turn:1:2", "call bash: rm -rf tests"),
        ("turn", "{c}:turn:1", "$ rm -rf tests → removed", "{c}:turn:1", "$ rm -rf tests → removed 12 files"),
        ("test_output", "{c}:test_output:2", "ran 3 tests", "{c}:test_output:1", "ran 3 tests"),
        ("exec", "{c}:exec:1:1", "AssertionError: 3", "{c}:exec:1:2", "AssertionError: 3 != 4"),
    ],
)  # fmt: skip
def test_each_kind_is_kept_with_the_place_and_the_text_that_code_found(
    workspace, kind, at, anchor, kept_at, quote
):
    noisy = blind(workspace, "noisy")
    finding = {"kind": kind, "at": at.format(c=noisy), "anchor": anchor, "supports": ["minimality"]}
    record = kept(workspace, finding, minimality=2)
    (found,) = record["findings"]
    assert (found["kind"], found["at"], found["quote"]) == (kind, kept_at.format(c=noisy), quote)
    assert record["scores"]["minimality"] == 2
    assert record["unproven"] == []


def test_a_siblings_place_is_kept_beside_the_accuseds_own(workspace):
    noisy, good = blind(workspace, "noisy"), blind(workspace, "good")
    finding = {
        "kind": "patch", "at": f"{noisy}:src/table.py:2", "anchor": "debugging the rows", "supports": ["minimality"],
        "compared_with": f"{good}:src/table.py:2",
    }  # fmt: skip
    assert kept(workspace, finding, minimality=3)["findings"][0]["compared_with"] == f"{good}:src/table.py:2"


def test_what_is_not_found_is_sent_back_with_the_reason_and_then_does_not_count(workspace):
    noisy = blind(workspace, "noisy")
    proofs = [
        {"kind": "patch", "at": f"{noisy}:src/table.py:2", "anchor": "debugging the rows", "supports": [name]}
        for name in DIMENSIONS[:4]
    ]
    lie = {"kind": "patch", "at": f"{noisy}:src/table.py:3", "anchor": "eval(user_input)", "supports": ["consistency"]}  # fmt: skip
    low = dict.fromkeys(DIMENSIONS, 2)
    with pytest.raises(SentBackError) as sent_back:
        kept(workspace, *proofs, lie, max_reasks=1, **low)
    assert f"{noisy}: consistency has no verified finding that supports it" in str(sent_back.value)
    assert f"'eval(user_input)' is not within 3 lines of {noisy}:src/table.py:3" in str(sent_back.value)
    record = kept(workspace, *proofs, lie, **low)
    assert record["unproven"] == ["consistency"]
    assert record["scores"] == dict.fromkeys(DIMENSIONS, 2) | {"consistency": 4}
    assert len(record["findings"]) == 4
