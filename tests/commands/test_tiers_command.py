import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gagar_cli.core.tier_tables import BUILT_IN


@pytest.fixture
def tiers(gagar, tmp_path: Path, monkeypatch) -> Callable:
    """Run `gagar tiers` in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: gagar("tiers", *arguments)


def own_table(path: Path) -> None:
    rules = (
        "T1 = {rule = 'flat', factor = 1}",
        "T2 = {rule = 'linear', first = 1, last = 0.9}",
        "T3 = {rule = 'flat', factor = 0.8}",
    )
    path.write_text("\n".join(("ties = 'average'", *rules, "[cap]", "kind = 'waterfill'", "limit = 1.25\n")))


def test_built_in_tables_stand_side_by_side(tiers: Callable) -> None:
    done = tiers()
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    shown = [line for line in lines if "top-rest" in line]
    assert [line.split()[0] for line in shown] == list(BUILT_IN)
    assert "linear first 0.85, lone 0.85, last 0.4" in shown[0]


def test_examples_tell_factors_and_amplification(tiers: Callable) -> None:
    summary = json.loads(tiers("flash", "--cap", "none", "--json").stdout)
    pair = summary["examples"][1]
    assert (pair["places"], pair["factors"]) == (["T1.1", "T3.1"], [1.0, 0.2])
    assert pair["amplification"] == [5 / 3, pytest.approx(1 / 3)]
    assert summary["table"]["ties"] == "dense"


def test_papers_cap_is_told_to_bind_where_it_does(tiers: Callable) -> None:
    summary = json.loads(tiers("flash", "--cap", "paper", "--json").stdout)
    assert [each["is_capped"] for each in summary["examples"]] == [False, True, True, True, True, True]


def test_own_table_is_shown(tmp_path: Path, tiers: Callable) -> None:
    own_table(tmp_path / "mine.toml")
    done = tiers("mine.toml")
    assert done.returncode == 0
    assert "ties: average" in done.stdout
    assert "cap waterfill (amplification at most 1.25; not the paper's cap), from the table" in done.stdout


def test_flag_wins_over_the_cap_of_the_table_and_that_is_told(tmp_path: Path, tiers: Callable) -> None:
    own_table(tmp_path / "mine.toml")
    done = tiers("mine.toml", "--cap", "none")
    assert (
        "cap none (the paper's equation 2); the flag wins over the table's waterfill at 1.25" in done.stdout
    )
    summary = json.loads(tiers("mine.toml", "--limit", "2", "--json").stdout)
    assert (summary["cap"], summary["limit"], summary["cap_from"]) == ("waterfill", 2.0, "flag")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ties = 'dense'\n", "error: bad.toml: [T1] is missing"),
        ("[T7]\n", "error: bad.toml:1: unknown key T7, the nearest is T3"),
        ("T3 = \n", "error: bad.toml:1: not TOML"),
    ],
)
def test_bad_table_is_a_usage_error_with_its_line(
    tmp_path: Path, tiers: Callable, text: str, message: str
) -> None:
    (tmp_path / "bad.toml").write_text(text)
    done = tiers("bad.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)


def test_limit_that_bounds_nothing_is_refused(tiers: Callable) -> None:
    done = tiers("flash", "--limit", "1")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --limit is 1, expected more than 1")


def test_limit_without_a_cap_is_refused(tiers: Callable) -> None:
    done = tiers("flash", "--cap", "none", "--limit", "3")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --limit is 3, and --cap none bounds nothing")
