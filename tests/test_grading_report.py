import json
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from gagar_cli.errors import InputError, OutputError, UsageError
from gagar_cli.grading_report import MovedAdvantage, ReportSettings, read_moved, run

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
    assert report.reasons == {"all_pass": 1, "endpoint": 1}
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
    assert len(re.findall("<details>", page)) == 1
    assert "2 more groups" in page


@pytest.mark.parametrize("name", ["advantages.parquet", "advantages.jsonl"])
def test_moved_advantage_is_half_of_what_changed(tmp_path, name):
    frame = pl.DataFrame(
        {
            "step": [1, 1, 1, 1],
            "group_id": ["g", "g", "g", "h"],
            "advantage": [0.5, 0.1, -0.6, None],
            "advantage_base": [0.3, 0.3, -0.6, None],
            "capped": [True, True, True, None],
        }
    )
    path = tmp_path / name
    frame.write_parquet(path) if name.endswith("parquet") else frame.write_ndjson(path)
    moved = read_moved(str(path))
    assert moved == MovedAdvantage(4, 2, pytest.approx(0.2), pytest.approx(0.6), 1)


def test_what_cannot_be_read_is_told(settings, tmp_path):
    run(settings)
    with pytest.raises(OutputError, match="exists already"):
        run(settings)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InputError, match=r"empty\.jsonl: no rankings"):
        run(ReportSettings(str(tmp_path / "empty.jsonl"), str(tmp_path / "x.html")))
    with pytest.raises(UsageError, match=r"expected \.parquet"):
        read_moved(str(tmp_path / "x.csv"))
    (tmp_path / "x.parquet").write_bytes(b"garbage")
    with pytest.raises(InputError, match=r"x\.parquet: cannot be read"):
        read_moved(str(tmp_path / "x.parquet"))
    pl.DataFrame({"advantage": [1.0]}).write_parquet(tmp_path / "y.parquet")
    with pytest.raises(InputError, match="has no column advantage_base"):
        read_moved(str(tmp_path / "y.parquet"))
