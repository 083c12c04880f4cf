"""Logs that real agents wrote: their lines can be cited as they are shown, and their digests say what happened."""

import asyncio
import json
import random
from collections import defaultdict
from pathlib import Path

import pytest

from gagar_cli.core.evidence import check_finding
from gagar_cli.core.ranking import Finding
from gagar_cli.core.schema import Group, GroupKey, Message, Task, Trajectory
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.workspace import Workspace

LOGS = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "canonical_full_logs.jsonl"
N_GROUPS = 6
N_LINES = 12
"""Of each view of each attempt, by chance with a fixed seed."""

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not LOGS.exists(), reason="the reference data is not here"),
]


@pytest.fixture(scope="module")
def workspaces() -> list[Workspace]:
    attempts = defaultdict(list)
    with LOGS.open(encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            attempts[record["group_id"]].append(
                Trajectory(
                    record["trajectory_id"],
                    float(record["resolved"] or 0),
                    bool(record["resolved"]),
                    tuple(Message(one["role"], one["content"] or "") for one in record["messages"]),
                    record["model_patch"],
                    record["test_output"],
                )
            )
    chosen = random.Random(0).sample(sorted(attempts), N_GROUPS)
    groups = [Group(GroupKey(None, name), Task(name), tuple(attempts[name])) for name in chosen]
    return [Workspace(group, seed=0, repository=None) for group in groups]


def call(workspace: Workspace, name: str, **arguments) -> str:
    return asyncio.run(Toolbox(workspace, None).call(name, arguments))


def test_lines_of_real_logs_can_be_cited_as_they_are_shown(workspaces):
    chance = random.Random(0)
    n_cited = 0
    for workspace in workspaces:
        for name in workspace.attempts:
            views = (
                ("patch", call(workspace, "view_patch", candidate=name)),
                ("turn", call(workspace, "list_turns", candidate=name)),
                ("turn", call(workspace, "view_turns", candidate=name, first=1, last=500)),
                ("test_output", call(workspace, "view_test_output", candidate=name)),
            )
            for kind, shown in views:
                lines = [line.split("│", 1) for line in shown.split("\n") if "│" in line]
                lines = [(at, text) for at, text in lines if len(" ".join(text.split())) > 9]
                for at, text in chance.sample(lines, min(N_LINES, len(lines))):
                    finding = Finding(kind, at, text, "it is there", ("approach",))
                    assert check_finding(finding, name, workspace.lines_near).at == at
                    n_cited += 1
    assert n_cited > 500


def test_digests_are_a_small_part_of_the_logs(workspaces):
    digests = texts = 0
    for workspace in workspaces:
        for name, attempt in workspace.attempts.items():
            digests += len(call(workspace, "list_turns", candidate=name))
            texts += sum(len(message.content) for message in attempt.trajectory.messages)
    assert digests < 0.07 * texts


def test_the_same_change_is_shown_once_among_real_patches(workspaces):
    alone = sum(
        len(call(workspace, "view_patch", candidate=name))
        for workspace in workspaces
        for name in workspace.candidates
    )
    together = sum(len(call(workspace, "compare_patches")) for workspace in workspaces)
    assert together < 0.6 * alone
