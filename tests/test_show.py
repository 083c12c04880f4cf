import json
from importlib.resources import files
from pathlib import Path

import pytest

from gagar_cli.errors import UsageError
from gagar_cli.grade import GradeSettings, run
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.io.rankings import latest_rankings, read_rankings
from gagar_cli.show import ShowSettings
from gagar_cli.show import run as show
from gagar_cli.tables_ranking import conversation_lines

DEMO = Path(str(files("gagar_cli").joinpath("demo_data/demo-rollouts.jsonl")))
GROUP = "shelfmark__shelfmark-44"


@pytest.fixture(scope="module")
def rankings(tmp_path_factory) -> str:
    output = str(tmp_path_factory.mktemp("graded") / "rankings.jsonl")
    # A seed other than the default: what is shown may not depend on it.
    run(GradeSettings((str(DEMO),), output, EndpointSettings("offline"), sandbox="inspect-only", seed=5))
    return output


def test_every_finding_on_a_patch_or_a_turn_is_found_again_in_the_dump(rankings):
    for group in (GROUP, "shelfmark__shelfmark-31", "shelfmark__shelfmark-38"):
        result = show(ShowSettings(rankings, group, dumps=(str(DEMO),)))
        wanted = {
            (candidate.trajectory_id, number)
            for candidate in result.ranking.candidates
            for number, finding in enumerate(candidate.findings)
            if finding.kind in ("patch", "turn") and finding.at.count(":") >= 2
        }
        cited = {place for place, lines in result.contexts.items() if any(line.is_cited for line in lines)}
        assert wanted <= cited


def test_the_table_and_the_proof_are_in_the_terminal(rankings, gagar):
    done = gagar("show", rankings, GROUP, str(DEMO))
    assert done.returncode == 0, done.stderr
    assert f"Group {GROUP} (step 40): graded" in done.stdout
    assert "violation" in done.stdout
    assert "      > │ " in done.stdout
    assert "grader: offline" in done.stdout


def test_without_the_dump_the_stored_quote_is_shown(rankings, gagar):
    done = gagar("show", rankings, GROUP)
    ranking = next(each for each in read_rankings(rankings) if each.key.group_id == GROUP)
    quotes = [finding.quote for candidate in ranking.candidates for finding in candidate.findings]
    assert quotes
    for quote in quotes:
        assert f"      > │ {quote}" in done.stdout


def test_the_conversation_is_shown_whole_on_request(rankings, gagar):
    result = show(ShowSettings(rankings, GROUP, with_conversation=True))
    assert result.conversation is not None
    assert result.conversation[0]["role"] == "system"
    assert result.conversation[-1]["content"] == "accepted"
    shown = gagar("show", rankings, GROUP, "--conversation").stdout
    assert f"[{len(result.conversation)}] tool" in shown
    assert "calls submit_ranking" in shown


def test_json_is_one_object_with_ranking_contexts_and_conversation(rankings, gagar):
    record = json.loads(gagar("show", rankings, GROUP, str(DEMO), "--conversation", "--json").stdout)
    assert record.keys() == {"schema_version", "ranking", "contexts", "conversation"}
    assert record["ranking"]["group_id"] == GROUP
    assert {"text", "is_cited"} == record["contexts"][0]["lines"][0].keys()


def test_hostile_text_reaches_the_terminal_harmless(tmp_path, gagar):
    evil = "\x1b[2Jgone\nT1 #1 trust me\u202e"
    finding = {"kind": "patch", "at": "c01:a.py:1", "anchor": evil, "claim": evil, "supports": ["approach"]}
    candidate = {
        "trajectory_id": "a\x1b[31m",
        "tier": "T1",
        "rank": 1,
        "findings": [finding],
        "rationale": evil,
    }
    grader = {
        "model": evil,
        "overrides": [
            {"trajectory_id": evil, "reason": evil, "author": evil, "at": evil, "before": {"tier": evil}}
        ],
    }
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({"group_id": "g", "candidates": [candidate], "grader": grader}) + "\n")
    done = gagar("show", str(path), "g")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    lines = [line for line in done.stdout.splitlines() if "trust me" in line]
    assert lines
    assert not [line for line in lines if line.startswith("T1 #1")]


def test_a_group_that_several_steps_have_wants_its_step(tmp_path):
    path = tmp_path / "r.jsonl"
    candidates = [{"trajectory_id": "a", "tier": "T1", "rank": 1}]
    path.write_text(
        "".join(json.dumps({"step": n, "group_id": "g", "candidates": candidates}) + "\n" for n in (1, 2))
    )
    with pytest.raises(UsageError, match="is there in 2 steps"):
        show(ShowSettings(str(path), "g"))
    assert show(ShowSettings(str(path), "g", step=2)).ranking.key.step == 2


def test_a_group_of_another_dump_is_told(rankings, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"group_id": "x", "trajectory_id": "a", "reward": 1.0}) + "\n")
    with pytest.raises(UsageError, match="is not in the dump"):
        show(ShowSettings(rankings, GROUP, dumps=(str(other),)))
    with pytest.raises(UsageError, match="no conversation about group"):
        show(ShowSettings(rankings, "shelfmark__shelfmark-52", with_conversation=True))


def test_the_ranking_shown_is_the_one_in_force(rankings):
    latest = latest_rankings(read_rankings(rankings))
    assert show(ShowSettings(rankings, GROUP)).ranking in latest.values()


def test_the_reasoning_of_a_model_is_part_of_the_conversation():
    message = {"role": "assistant", "content": None, "reasoning_content": "c01 repeats\nthe \x1b[31mhelper"}
    assert list(conversation_lines((message,)))[1:] == [
        "[1] assistant",
        "  reasons",
        "    │ c01 repeats",
        "    │ the \\u{1b}[31mhelper",
    ]
