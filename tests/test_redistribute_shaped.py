"""Rewards that are not 0 and 1: which passes are moved, and what is said of the others."""

import json
from pathlib import Path
from typing import Any

import pytest

from gagar_cli.redistribute import RedistributeSettings, run
from gagar_cli.redistribution_summary import RedistributeResult
from gagar_cli.tables_redistribution import redistribute_table

ROOT = Path(__file__).resolve().parents[1]
PASSES = (("a", 0.5, "T1", 1), ("b", 0.95, "T2", 1), ("c", 1.0, "T2", 2))


@pytest.fixture
def redistributed(tmp_path: Path) -> Any:
    """The example of docs/redistribution.md under a cap."""

    def redistribute(cap: str) -> tuple[RedistributeResult, list[dict[str, Any]]]:
        rewards = {name: reward for name, reward, *_ in PASSES} | {"f": 0.4}
        records = [
            {"group_id": "g", "trajectory_id": name, "resolved": name != "f", "reward": reward}
            for name, reward in rewards.items()
        ]
        places = [{"trajectory_id": name, "tier": tier, "rank": rank} for name, _, tier, rank in PASSES]
        dump, rankings, output = (tmp_path / name for name in ("dump.jsonl", "r.jsonl", "out.jsonl"))
        dump.write_text("".join(json.dumps(record) + "\n" for record in records))
        rankings.write_text(json.dumps({"group_id": "g", "candidates": places}) + "\n")
        settings = RedistributeSettings(
            (str(dump),), str(rankings), str(output), cap=cap, check=True, overwrite=True
        )  # type: ignore[arg-type]
        return run(settings), [json.loads(line) for line in output.read_text().splitlines()]

    return redistribute


def told(result: RedistributeResult) -> str | None:
    names, values = redistribute_table(result).columns
    rows = dict(zip(map(str, names.cells), map(str, values.cells), strict=True))
    return rows.get("passes not above the mean")


def test_pass_below_the_mean_stays_what_it_was_and_is_counted(redistributed: Any) -> None:
    result, rows = redistributed("bounded")
    assert [row["advantage_base"] for row in rows] == pytest.approx([-0.2125, 0.2375, 0.2875, -0.3125])
    # 0.525 among b and c, by 0.85 and 0.4 times their base: λ is 0.525 / (0.85 · 0.2375 + 0.4 · 0.2875).
    share = 0.525 / (0.85 * 0.2375 + 0.4 * 0.2875)
    expected = [-0.2125, share * 0.85 * 0.2375, share * 0.4 * 0.2875, -0.3125]
    assert [row["advantage"] for row in rows] == pytest.approx(expected)
    assert (rows[0]["advantage"], rows[0]["quality_factor"]) == (rows[0]["advantage_base"], 1.0)
    assert (told(result), result.n_broken_groups) == ("1, left as they were", 0)


def test_papers_cap_sets_it_to_the_mean(redistributed: Any) -> None:
    """Equation 8: λ is cut at 1.5, a pass below the mean gets 0, and the group's mean is subtracted."""
    result, rows = redistributed("paper")
    paid = [0, 1.5 * 0.85 * 0.2375, 1.5 * 0.4 * 0.2875, -0.3125]
    mean = sum(paid) / 4
    assert [row["advantage"] for row in rows] == pytest.approx([value - mean for value in paid])
    assert told(result) == "1, set to the mean"


def test_documentation_shows_these_numbers(redistributed: Any) -> None:
    _, rows = redistributed("bounded")
    page = (ROOT / "docs" / "redistribution.md").read_text(encoding="utf-8")
    for (name, reward, tier, _), row in zip(PASSES, rows, strict=False):
        [line] = [text for text in page.splitlines() if text.startswith(f"| {name} | {reward} | {tier}")]
        cells = [cell.strip().replace("−", "-") for cell in line.split("|")]
        assert float(cells[4]) == pytest.approx(row["advantage_base"])
        assert float(cells[5].split(",")[0]) == pytest.approx(row["advantage"], abs=5e-5)


@pytest.mark.parametrize(
    ("rewards", "note"),
    [
        ((1.0, 1.0, 0.0), None),
        ((1.0, 0.2, -1.0), "2 attempts have other rewards, which it does not read"),
        ((1.0, 0.2, 0.0), "1 attempt has another reward, which it does not read"),
    ],
)
def test_recode_counts_passes_and_failures_and_says_so(
    tmp_path: Path, rewards: tuple[float, ...], note: str | None
) -> None:
    records = [
        {"group_id": "g", "trajectory_id": str(place), "resolved": place < 2, "reward": reward}
        | {"process_score": 0.5, "format_ok": True}
        for place, reward in enumerate(rewards)
    ]
    dump, output = tmp_path / "dump.jsonl", tmp_path / "out.jsonl"
    dump.write_text("".join(json.dumps(record) + "\n" for record in records))
    result = run(
        RedistributeSettings((str(dump),), None, str(output), method="recode", assignments=("scale=none",))
    )
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    # 1 + 1 + 0.5 twice and 1, whatever the rewards are.
    assert [row["advantage"] for row in rows] == pytest.approx([0.5, 0.5, -1.0])
    told = () if note is None else (f"recode counts a pass as 1 and a failure as 0: {note}",)
    assert result.shortfalls == told
