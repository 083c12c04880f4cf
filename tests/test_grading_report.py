import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gagar_cli.errors import InputError, OutputError
from gagar_cli.grading_report import ReportSettings, run
from gagar_cli.report.grading_page import report_facts

RANKINGS = [
    {
        "group_id": "g1",
        "status": "graded",
        "candidates": [
            {
                "trajectory_id": "a",
                "tier": "T1",
                "rank": 1,
                "scores": {
                    "approach": 5,
                    "precision": 5,
                    "minimality": 4,
                    "side_effects": 5,
                    "consistency": 5,
                },
                "weighted_score": 4.8,
            },
            {
                "trajectory_id": "b",
                "tier": "T3",
                "rank": 1,
                "flags": {"out_of_scope": True},
                "scores": {
                    "approach": 3,
                    "precision": 5,
                    "minimality": 2,
                    "side_effects": 1,
                    "consistency": 5,
                },
                "findings": [
                    {
                        "kind": "patch",
                        "at": "c02:src/a.py:3",
                        "anchor": "import everything",
                        "claim": "touches </pre><script>",
                        "supports": ["minimality"],
                        "quote": "import everything",
                    }
                ],
                "unproven": ["precision"],
            },
            {"trajectory_id": "c", "flags": {"integrity_violation": True}},
        ],
        "grader": {"model": "m", "calls": 3, "tokens": {"in": 100, "cached": 40, "out": 7}, "seconds": 1.0},
    },
    {"group_id": "g2", "status": "skipped", "reason": "all_pass", "candidates": []},
    {"group_id": "g3", "status": "ungraded", "reason": "endpoint: status 500", "candidates": []},
]


@pytest.fixture
def settings(tmp_path) -> ReportSettings:
    path = tmp_path / "rankings.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in RANKINGS))
    return ReportSettings(str(path), str(tmp_path / "report.html"))


def test_the_figures_are_those_of_the_rankings(settings):
    report = run(settings)
    assert report.n_groups == {"graded": 1, "skipped": 1, "ungraded": 1}
    assert report.reasons == {"skipped": {"all_pass": 1}, "ungraded": {"endpoint": 1}}
    assert report.tiers == {"T1": 1, "T2": 0, "T3": 1, "violation": 1}
    assert report.mean_scores["minimality"] == 3.0
    assert (report.findings, report.n_unproven) == ({"patch": 1}, 1)
    assert (report.spending.n_calls, report.spending.n_input_tokens) == (3, 100)
    assert report.advantage is None


def test_the_page_shows_findings_with_their_code_and_holds_no_markup_of_theirs(settings):
    run(settings)
    page = Path(settings.output).read_text(encoding="utf-8")
    assert "<pre>import everything</pre>" in page
    assert "touches &lt;/pre&gt;&lt;script&gt;" in page
    assert "<script" not in page
    assert page.index("<strong>g1</strong>") < page.index("<strong>g2</strong>")
    assert "Not graded: endpoint: status 500" in page


def test_groups_beyond_the_limit_are_counted(settings):
    run(replace(settings, max_groups=1))
    page = Path(settings.output).read_text(encoding="utf-8")
    assert len(re.findall("<details>\n<summary><strong>", page)) == 1
    assert "2 more groups" in page


def test_how_it_was_graded_is_told_once_where_it_is_the_same_for_all_groups(settings, tmp_path):
    told = {
        "model": "m",
        "mode": "agentic",
        "sandbox": "docker",
        "prompt_version": "abc123",
        "protocol": "tools",
    }
    lines = [{**RANKINGS[0], "grader": told | {"rubric": {"name": "ours", "hash": "12ab"}}}, RANKINGS[1]]
    path = tmp_path / "told.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    report = run(replace(settings, rankings=str(path)))
    assert report.graded_with["rubric"] == {"ours@12ab": 1}
    page = Path(settings.output).read_text(encoding="utf-8")
    for name, value in (
        ("mode", "agentic"),
        ("sandbox", "docker"),
        ("prompt version", "abc123"),
        ("rubric", "ours@12ab"),
    ):
        assert f"<th>{name}</th><td>{value}</td>" in page
    assert "How to read these figures" in page
    # The skipped group was not graded; the ungraded one says nothing of its own.
    path.write_text(path.read_text() + json.dumps(RANKINGS[2]) + "\n")
    facts = dict(report_facts(run(replace(settings, rankings=str(path), overwrite=True))))
    assert facts["mode"] == "agentic 1, not told 1"


def test_every_candidates_advantage_is_told_before_and_after(settings, tmp_path):
    advantages = tmp_path / "advantages.jsonl"
    rows = [("a", 0.5, 0.9), ("b", 0.5, 0.1), ("c", -1.0, -1.0)]
    advantages.write_text(
        "".join(
            json.dumps(
                {
                    "step": 7,
                    "group_id": "g1",
                    "trajectory_id": name,
                    "advantage": after,
                    "advantage_base": base,
                }
            )
            + "\n"
            for name, base, after in rows
        )
    )
    run(replace(settings, advantages=str(advantages)))
    page = Path(settings.output).read_text(encoding="utf-8")
    shown = re.findall(r"<strong>(\w)</strong>.*?(advantage [^<]*)<", page, re.DOTALL)
    assert shown == [
        ("a", "advantage +0.500 → +0.900"),
        ("b", "advantage +0.500 → +0.100"),
        ("c", "advantage -1.000 → -1.000"),
    ]
    assert "<dt>advantage</dt>" in page
    run(replace(settings, overwrite=True))
    assert "<dt>advantage" not in Path(settings.output).read_text(encoding="utf-8")


def test_a_candidate_that_the_advantages_lack_is_told_as_such(settings, tmp_path):
    advantages = tmp_path / "advantages.jsonl"
    advantages.write_text(json.dumps({"advantage": 0.0, "advantage_base": 0.0}) + "\n")
    report = run(replace(settings, advantages=str(advantages)))
    assert Path(settings.output).read_text(encoding="utf-8").count("advantage not in the file") == 3
    assert "whether it is of these rankings cannot be told" in report.notes[0]


def write_advantages(path, rows) -> str:
    """Rows are (step, group, trajectory, base, after)."""
    names = ("step", "group_id", "trajectory_id", "advantage_base", "advantage")
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((7, "other", "a", 0.5, 0.9), "none of 3 groups of the rankings is in it"),
        ((7, "g1", "other", 0.5, 0.9), "none of 3 candidates of the rankings is in it"),
    ],
)
def test_advantages_of_other_rankings_are_refused(settings, tmp_path, row, message):
    path = write_advantages(tmp_path / "other.jsonl", [row])
    with pytest.raises(InputError, match=message) as caught:
        run(replace(settings, advantages=path))
    assert caught.value.hint is not None
    assert not Path(settings.output).exists()


def test_advantages_of_another_step_are_refused(settings, tmp_path):
    lines = [{**RANKINGS[0], "step": 1}]
    rankings = tmp_path / "steps.jsonl"
    rankings.write_text(json.dumps(lines[0]) + "\n")
    path = write_advantages(tmp_path / "other.jsonl", [(2, "g1", "a", 0.5, 0.9)])
    with pytest.raises(InputError, match="none of 1 group of the rankings is in it"):
        run(replace(settings, rankings=str(rankings), advantages=path))


def test_figures_are_of_what_rankings_and_advantages_share_and_the_rest_is_told(settings, tmp_path):
    rows = [
        (7, "g1", "a", 0.5, 0.9),
        (7, "g1", "b", 0.5, 0.1),
        (7, "g1", "f", -1.0, -1.0),
        (7, "x", "a", 0.5, 9.5),
    ]
    path = write_advantages(tmp_path / "more.jsonl", rows)
    report = run(replace(settings, advantages=path))
    assert report.advantage is not None
    assert (report.advantage.n_rows, report.advantage.moved) == (3, pytest.approx(0.4))
    assert report.to_record()["notes"] == [
        f"{path}: 2 of 3 groups of the rankings are not in it",
        f"{path}: 1 of 3 candidates is not in it",
        f"{path}: 1 group without a ranking here is left out",
    ]


def test_a_violation_is_said_to_get_the_reward_of_a_failure(settings):
    run(settings)
    page = Path(settings.output).read_text(encoding="utf-8")
    assert "no place, and by default the reward of a failure." in page


def test_hostile_names_make_no_tag_on_the_page(settings, tmp_path):
    evil = "</title></dd><script>x</script><img src=x onerror=y>\u202e"
    lines = json.loads(json.dumps(RANKINGS[:1]))
    lines[0]["group_id"] = evil
    lines[0]["grader"] = {
        "model": evil,
        "mode": evil,
        "sandbox": evil,
        "prompt_version": evil,
        "rubric": {"name": evil},
    }
    lines[0]["candidates"][0]["trajectory_id"] = evil
    path = tmp_path / "evil.jsonl"
    path.write_text(json.dumps(lines[0]) + "\n")
    row = {"group_id": evil, "trajectory_id": evil, "advantage": 1.0, "advantage_base": 0.5}
    advantages = tmp_path / "advantages.jsonl"
    advantages.write_text(json.dumps(row) + "\n")
    run(replace(settings, rankings=str(path), advantages=str(advantages)))
    page = Path(settings.output).read_text(encoding="utf-8")
    assert "advantage +0.500 → +1.000" in page
    assert "<script" not in page
    assert "<img" not in page
    assert "\u202e" not in page


def test_what_cannot_be_read_is_told(settings, tmp_path):
    run(settings)
    with pytest.raises(OutputError, match="exists already"):
        run(settings)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InputError, match=r"empty\.jsonl: no rankings"):
        run(ReportSettings(str(tmp_path / "empty.jsonl"), str(tmp_path / "x.html")))
