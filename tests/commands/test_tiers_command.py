import json
import subprocess
import sys
from pathlib import Path

import pytest

from gagar_cli.core.factors import BUILT_IN


def gagar(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gagar_cli", "tiers", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_built_in_tables_stand_side_by_side(tmp_path: Path) -> None:
    done = gagar(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    header, *_ = [
        line.split() for line in done.stdout.splitlines() if "flash" in line and "paper" not in line
    ]
    assert header == list(BUILT_IN)
    assert ["t3", "0.2", "0.5", "0.05", "1"] in [line.split() for line in done.stdout.splitlines()]


def test_examples_tell_factors_and_amplification(tmp_path: Path) -> None:
    summary = json.loads(gagar(tmp_path, "flash", "--cap", "none", "--json").stdout)
    pair = summary["examples"][1]
    assert (pair["places"], pair["factors"]) == (["T1.1", "T3.1"], [1.0, 0.2])
    assert pair["amplification"] == [5 / 3, pytest.approx(1 / 3)]
    assert summary["table"]["ties"] == "dense"


def test_papers_cap_is_told_to_bind_where_it_does(tmp_path: Path) -> None:
    summary = json.loads(gagar(tmp_path, "flash", "--cap", "paper", "--json").stdout)
    assert [each["capped"] for each in summary["examples"]] == [False, True, True, True, True, True]


def test_own_table_is_shown(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        't1_first = 1\nt1_others = 1\nt2_best = 1\nt2_worst = 0.9\nt2_lone = 1\nt3 = 0.8\nties = "average"\n'
    )
    done = gagar(tmp_path, "mine.toml")
    assert done.returncode == 0
    assert "ties average" in done.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t3 = 0\n", "error: bad.toml: t1_first is missing"),
        ("t1_fist = 1\n", "error: bad.toml:1: unknown key t1_fist, the nearest is t1_first"),
        ("t3 = \n", "error: bad.toml:1: not TOML"),
    ],
)
def test_bad_table_is_a_usage_error_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    done = gagar(tmp_path, "bad.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)


def test_limit_that_bounds_nothing_is_refused(tmp_path: Path) -> None:
    done = gagar(tmp_path, "flash", "--limit", "1")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --limit is 1.0, expected more than 1")
