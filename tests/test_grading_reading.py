"""Rankings read with other options than they were made with."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from gagar_cli.errors import InputError
from gagar_cli.grade import GradeSettings
from gagar_cli.grade import run as grade
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.io.dump import ReadOptions
from gagar_cli.redistribute import RedistributeSettings
from gagar_cli.redistribute import run as redistribute
from gagar_cli.stats import StatsSettings
from gagar_cli.stats import run as stats
from gagar_cli.sweep import SweepSettings
from gagar_cli.sweep import run as sweep

PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 0\n+a = {}\n"


class Bench:
    """Grades and redistributes one dump of rewards 1, 1, 0.6 and 0 in each of two groups."""

    def __init__(self, folder: Path) -> None:
        self.dump, self.rankings = folder / "dump.jsonl", folder / "rankings.jsonl"
        self.output = folder / "out.jsonl"
        self.write()

    def write(self, **more: Any) -> None:
        rows = [
            {"task": f"t{group}", "trajectory_id": f"{group}{place}", "reward": reward}
            | {"group_id": f"g{group}", "model_patch": PATCH.format(place)}
            | {name: value(reward) for name, value in more.items()}
            for group in range(2)
            for place, reward in enumerate((1, 1, 0.6, 0))
        ]
        self.dump.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def grade(self, output: Path | None = None, **read: Any) -> None:
        path = str(output or self.rankings)
        options = ReadOptions(**read)
        endpoint = EndpointSettings("offline")
        grade(GradeSettings((str(self.dump),), path, endpoint, read=options, sandbox="inspect-only"))

    def redistribute(self, rankings: Path | None = None, **read: Any) -> Any:
        dumps, path = (str(self.dump),), str(rankings or self.rankings)
        settings = RedistributeSettings(dumps, path, str(self.output), ReadOptions(**read), overwrite=True)
        return redistribute(settings)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_how_the_dump_was_read_stands_beside_the_rankings(bench: Bench) -> None:
    bench.grade(pass_threshold=0.5, fields={"group_id": "task"})
    assert json.loads(Path(f"{bench.rankings}.run.json").read_text())["read"] == {
        "pass_threshold": 0.5,
        "fields": {"group_id": "task"},
        "group_by": None,
        "explode": None,
        "format": None,
        "joins": [],
    }


@pytest.mark.parametrize(
    ("graded", "read", "told"),
    [
        (1.0, 0.5, ":3: passes with reward 0.6 at --pass-threshold 0.5, and failed at the 1 that "),
        (0.5, 1.0, ":3: fails with reward 0.6 at --pass-threshold 1, and passed at the 0.5 that "),
    ],
    ids=["lower", "higher"],
)
@pytest.mark.parametrize("name", ["rankings.jsonl", "rankings.parquet"])
def test_another_threshold_is_refused_with_both_values_and_the_option(
    bench: Bench, tmp_path: Path, name: str, graded: float, read: float, told: str
) -> None:
    bench.grade(tmp_path / name, pass_threshold=graded)
    with pytest.raises(InputError) as caught:
        bench.redistribute(tmp_path / name, pass_threshold=read)
    assert told in caught.value.message
    assert caught.value.message.endswith(f"{name} was made with (and 1 more like it)")
    assert caught.value.hint == f"`--pass-threshold {graded:g}` reads the dump as `gagar grade` did"
    assert not bench.output.exists()
    assert bench.redistribute(tmp_path / name, pass_threshold=graded).n_groups["graded"] == 2


def test_other_commands_that_lay_rankings_refuse_it_too(bench: Bench) -> None:
    bench.grade(pass_threshold=0.5)
    dump, rankings = str(bench.dump), str(bench.rankings)
    runs: list[Callable[[], object]] = [
        lambda: stats(StatsSettings(dump, rankings)),
        lambda: sweep(SweepSettings((dump,), rankings)),
    ]
    for run in runs:
        with pytest.raises(InputError, match=r"and passed at the 0\.5 that"):
            run()


def test_another_threshold_that_no_reward_is_between_makes_no_difference(bench: Bench) -> None:
    bench.grade(pass_threshold=0.5)
    assert bench.redistribute(pass_threshold=0.55).n_groups["graded"] == 2


def test_a_threshold_that_decides_nothing_makes_no_difference(bench: Bench) -> None:
    bench.write(resolved=lambda reward: reward > 0)
    bench.grade(pass_threshold=0.5)
    assert bench.redistribute().n_groups["graded"] == 2


def test_what_was_read_otherwise_is_told_where_rankings_do_not_fit(bench: Bench) -> None:
    bench.grade(fields={"group_id": "task"})
    with pytest.raises(InputError, match="none of its 2 groups is in the dump") as caught:
        bench.redistribute()
    assert caught.value.hint.endswith(f"({bench.rankings} was made with `--field group_id=task`)")
    assert bench.redistribute(fields={"group_id": "task"}).n_groups["graded"] == 2


def test_without_a_record_the_threshold_is_named_where_it_may_be_the_reason(
    bench: Bench, tmp_path: Path
) -> None:
    alone = tmp_path / "alone.jsonl"
    bench.grade(pass_threshold=0.5)
    copy(bench.rankings, alone)
    with pytest.raises(InputError, match="did not pass") as caught:
        bench.redistribute(alone)
    assert "`--pass-threshold` must be the one that `gagar grade` had" in caught.value.hint

    bench.rankings.unlink()
    bench.grade()
    copy(bench.rankings, alone)
    result = bench.redistribute(alone, pass_threshold=0.5)
    assert result.n_by_reason["ungraded"] == {"missing_candidate": 2}
    assert result.shortfalls[-1] == (
        "2 rankings lack a passing attempt of the dump and move nothing: "
        "without `resolved`, `--pass-threshold` must be the one that `gagar grade` had"
    )
    resolved = replace(result, report=replace(result.report, missing_columns=()))
    assert resolved.shortfalls[-1] == "2 rankings lack a passing attempt of the dump and move nothing"


def test_a_run_that_reads_otherwise_goes_on_and_the_record_follows(bench: Bench) -> None:
    bench.grade(pass_threshold=0.5)
    bench.grade(pass_threshold=1.0)
    assert bench.redistribute().n_groups["graded"] == 2
