"""Ids kept in a file change nothing for commands that read whole records: the same results as with ids in memory."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest

from gagar_cli import convert, grade, grading_estimate, head, show, stats, sweep, validate
from gagar_cli.audit_plan import Source, open_dumps, plan_audit
from gagar_cli.calibrate import CalibrateSettings, plan_calibration
from gagar_cli.grade import GradeSettings
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grading_plan import plan_groups
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.show import ShowSettings

DEMO = str(files("gagar_cli").joinpath("demo_data/demo-rollouts.jsonl"))
GROUP = "shelfmark__shelfmark-44"
IN_MEMORY, APART = (ReadOptions(max_ids_in_memory=limit) for limit in (10**9, 0))


@pytest.fixture(scope="module")
def rankings(tmp_path_factory: pytest.TempPathFactory) -> str:
    output = str(tmp_path_factory.mktemp("graded") / "rankings.jsonl")
    grade.run(GradeSettings((DEMO,), output, EndpointSettings("offline"), sandbox="inspect-only"))
    return output


def planned(read: ReadOptions, _: str) -> object:
    with open_dump([DEMO], read) as dump:
        return plan_groups(dump)


def audited(read: ReadOptions, _: str) -> object:
    # One dump of each kind: their tables are put together.
    source = Source((("old", (DEMO,)), ("new", (DEMO,))))
    with ExitStack() as stack:
        dumps = open_dumps(source, read, stack)
        dumps[1] = open_dumps(source, IN_MEMORY, stack)[1]
        return plan_audit(source, dumps, n_tasks=3, per_task=2, seed=1)


def calibrated(read: ReadOptions, _: str) -> object:
    endpoint = EndpointSettings("offline")
    grader = GradeSettings((DEMO,), "none", endpoint).grader
    with open_dump([DEMO], read) as dump:
        return plan_calibration(dump, CalibrateSettings((DEMO,), "none", grader, (endpoint,)))


def converted(read: ReadOptions, folder: str) -> object:
    output = Path(folder, "out.jsonl")
    result = convert.run(convert.ConvertSettings((DEMO,), str(output), read, overwrite=True))
    return result, output.read_bytes()


def estimated(read: ReadOptions, folder: str) -> object:
    return grading_estimate.estimate(
        GradeSettings((DEMO,), str(Path(folder, "none.jsonl")), EndpointSettings("offline"), read=read)
    )


CASES: dict[str, Callable[[ReadOptions, str], object]] = {
    "plan": planned,
    "audit": audited,
    "calibrate": calibrated,
    "convert": converted,
    "estimate": estimated,
    "head": lambda read, _: head.run(head.HeadSettings((DEMO,), read=read)),
    "validate": lambda read, _: validate.run(validate.ValidateSettings((DEMO,), read)),
    "stats": lambda read, _: stats.run(stats.StatsSettings(DEMO, read=read, by="repo")),
}


@pytest.mark.parametrize("name", CASES)
def test_the_results_are_the_same(tmp_path: Path, name: str) -> None:
    expected = CASES[name](IN_MEMORY, str(tmp_path))
    assert repr(CASES[name](APART, str(tmp_path))) == repr(expected)


def test_what_rankings_say_is_laid_over_the_same_attempts(rankings: str) -> None:
    for read in (IN_MEMORY, APART):
        with open_dump([DEMO], read) as dump:
            assert (dump.rows_apart is None) == (read is IN_MEMORY)
    told = [stats.run(stats.StatsSettings(DEMO, rankings, read)) for read in (IN_MEMORY, APART)]
    assert sum(told[0].whole.findings.values()) > 10
    assert told[0] == told[1]
    swept = [
        sweep.run(sweep.SweepSettings((DEMO,), rankings, n_weights=2, read=read))
        for read in (IN_MEMORY, APART)
    ]
    assert repr(swept[0]) == repr(swept[1])
    shown = [show.run(ShowSettings(rankings, GROUP, dumps=(DEMO,), read=read)) for read in (IN_MEMORY, APART)]
    assert shown[0].contexts
    assert shown[0].contexts == shown[1].contexts


def test_a_run_of_ids_in_memory_is_gone_on_with_apart(tmp_path: Path, rankings: str) -> None:
    output = tmp_path / "rankings.jsonl"
    output.write_bytes(Path(rankings).read_bytes())
    settings = GradeSettings((DEMO,), str(output), EndpointSettings("offline"), sandbox="inspect-only")
    result = grade.run(replace(settings, read=APART))
    n_graded = sum(json.loads(line)["status"] == "graded" for line in Path(rankings).read_text().splitlines())
    assert result.n_resumed == n_graded > 2


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("is_index_only", [True, False])
def test_every_row_is_what_it_is_in_memory(tmp_path: Path, suffix: str, *, is_index_only: bool) -> None:
    records = [
        {"group_id": f"g{row % 999}", "trajectory_id": f"attempt {row}", "step": row % 9, "reward": row % 2,
         "messages": f"[{row}]", "mask_sample": row % 5 == 0, "n_turns": row}
        for row in range(20_000)
    ]  # fmt: skip
    paths = [str(tmp_path / f"{number}.{suffix}") for number in range(2)]
    for path, part in zip(paths, (records[:9000], records[9000:]), strict=True):
        if suffix == "parquet":
            pl.DataFrame(part).write_parquet(path)
        else:
            Path(path).write_text("".join(json.dumps(record) + "\n" for record in part))
    options = [replace(read, is_index_only=is_index_only, extras=("n_turns",)) for read in (IN_MEMORY, APART)]
    rows = [0, 19_999, 8191, 8999, 9000, 12]
    with open_dump(paths, options[0]) as whole, open_dump(paths, options[1]) as apart:
        assert apart.rows_apart is not None
        expected = whole.index.drop("trajectory_id")
        assert apart.index.cast(expected.schema).equals(expected)  # type: ignore[arg-type]
        assert apart.full_index().equals(whole.index)
        assert apart.full_index().schema == whole.index.schema
        assert apart.keys(8000, 17_000).equals(whole.keys(8000, 17_000))
        assert [apart.where(row) for row in rows] == [whole.where(row) for row in rows]
        assert list(apart.iter_records()) == list(whole.iter_records())
        assert list(apart.iter_records(["group_id"]))[9000]["group_id"] == "g9"


def test_heavy_fields_are_read_by_row(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    record = {"group_id": "g", "reward": 1, "model_patch": "p"}
    lines = [json.dumps({**record, "trajectory_id": f"t{row}", "test_output": str(row)}) for row in range(40)]
    path.write_text("\n".join(lines))
    with open_dump([str(path)], APART) as dump:
        found = [trajectory for _, trajectory in dump.read_trajectories([7, 39, 0])]
    assert [(each.trajectory_id, each.test_output) for each in found] == [
        ("t7", "7"),
        ("t39", "39"),
        ("t0", "0"),
    ]
    assert [each.where for each in found] == [f"{path}:8", f"{path}:40", f"{path}:1"]
