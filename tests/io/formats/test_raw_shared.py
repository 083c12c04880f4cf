"""Every real file there is, none left out: known for what it is, converted to lines, to Parquet and back; every report joined.

The figures are counted here with nothing but `json`, or literal.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gagar_cli.convert import ConvertSettings, run
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.formats import FORMATS, recognise
from gagar_cli.io.formats.files import NativeFile
from gagar_cli.io.native_files import SUFFIXES

RAW = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "raw"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not RAW.is_dir(), reason="the reference data is not here"),
]


def form_of(path: Path) -> str:
    file = NativeFile(str(path))
    try:
        found = recognise(file.sample())
    finally:
        file.close()
    return "" if found is None else found[0].name


FORMS = {
    str(each.relative_to(RAW)): form_of(each)
    for each in sorted(RAW.rglob("*"))
    if each.is_file() and each.name.endswith(SUFFIXES)
}
DUMPS = [path for path, name in FORMS.items() if name and FORMATS[name].role in ("attempts", "predictions")]


def test_every_file_is_known_for_what_it_is() -> None:
    assert Counter(FORMS.values()) == {
        "verdicts": 27, "swe-agent": 22, "terminal-bench": 21, "predictions": 15, "mini-swe-agent": 7, "atif": 7,
        "nemo-gym": 7, "openhands": 2, "openhands-events": 1, "swe-smith": 1, "swe-smith-tuning": 1, "swe-gym": 1,
        "nebius-swe-agent": 1, "harbor": 1, "harbor-job": 1, "nemo-gym-inputs": 1, "swe-smith-validation": 1, "": 2,
    }  # fmt: skip
    # What tests print for people, and the settings of a run.
    assert {Path(path).name for path, name in FORMS.items() if not name} == {"ctrf.json", "run_metadata.json"}
    assert len(DUMPS) == 87


def records_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("path", DUMPS)
def test_every_dump_comes_back_from_parquet_as_it_went_in(tmp_path: Path, path: str) -> None:
    first, table, second = (tmp_path / name for name in ("1.jsonl", "2.parquet", "3.jsonl"))
    counts = []
    for source, target in ((RAW / path, first), (first, table), (table, second)):
        result = run(ConvertSettings((str(source),), str(target)))
        counts.append((result.n_records, result.n_groups, result.n_passed, result.n_invalid))
    assert counts[0] == counts[1] == counts[2]
    records = records_of(first)
    assert records == records_of(second)
    assert len(records) == counts[0][0] > 0
    # What was read of the native file is what is read of each copy.
    read = []
    for source in (RAW / path, first, table):
        with open_dump([str(source)], ReadOptions()) as dump:
            read.append(
                [
                    (
                        task,
                        each.trajectory_id,
                        str(each.reward),
                        each.passed,
                        each.messages,
                        each.model_patch,
                        each.test_output,
                        each.exit_status,
                        each.is_truncated,
                    )
                    for task, each in dump.read_trajectories(range(dump.n_rows))
                ]
            )
    assert read[0] == read[1] == read[2]


def asked(tmp_path: Path, ids: list[str]) -> str:
    """Predictions for these instances."""
    rows = [{"instance_id": each, "model_name_or_path": "m", "model_patch": "p"} for each in ids]
    path = tmp_path / "preds.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def judged(tmp_path: Path, ids: list[str], report: str) -> tuple[set[str], Counter[str | None]]:
    """The instances that pass by a report, and the reasons of those that are invalid."""
    options = ReadOptions(joins=(str(RAW / report),))
    with open_dump([asked(tmp_path, ids)], options) as dump:
        assert dump.index["group"].n_unique() == dump.n_rows == len(ids)
        passed = set(dump.index.filter("passed")["group_id"])
        return passed, Counter(dump.index["invalid_reason"].drop_nulls())


def test_the_first_generation_of_reports(tmp_path: Path) -> None:
    """249 generated: 245 applied, of which 54 resolved; 4 did not apply, which is a failure."""
    report = json.loads((RAW / "swebench-harness/v1_report.json").read_bytes())
    assert (len(report["generated"]), len(report["applied"]), len(report["no_apply"])) == (249, 245, 4)
    passed, invalid = judged(tmp_path, report["generated"], "swebench-harness/v1_report.json")
    assert passed == set(report["resolved"])
    assert (len(passed), invalid) == (54, Counter())


def test_the_second_generation_of_reports(tmp_path: Path) -> None:
    """85 submitted: 6 resolved, 76 not, 3 empty, which is a failure; the 6 incomplete ones were not evaluated."""
    report = json.loads((RAW / "swebench-harness/v2_results.json").read_bytes())
    ids = [*report["submitted_ids"], *report["incomplete_ids"]]
    assert (len(ids), report["total_instances"]) == (91, 91)
    passed, invalid = judged(tmp_path, ids, "swebench-harness/v2_results.json")
    assert passed == set(report["resolved"])
    assert (len(passed), invalid) == (6, Counter(not_evaluated=6))


@pytest.mark.parametrize(
    ("model", "n_instances", "n_passed"),
    [
        ("claude-45sonnet-10132025", 730, 319),
        ("claude-4sonnet-10132025", 562, 240),
        ("claude-opus-4-1-paper", 891, 206),
        ("claude-sonnet-4-paper", 663, 166),
        ("gemini-2-5-pro-preview-paper", 955, 105),
        ("gptoss-paper", 728, 118),
    ],
)
def test_the_verdicts_of_swe_bench_pro(tmp_path: Path, model: str, n_instances: int, n_passed: int) -> None:
    """`jq length` and `jq '[.[] | select(.)] | length'`; no run's folder is there, so no false can be told for a death."""
    place = f"swe-bench-pro/traj/{model}/eval_results.json"
    report = json.loads((RAW / place).read_bytes())
    assert len(report) == n_instances
    passed, invalid = judged(tmp_path, list(report), place)
    assert passed == {name for name, verdict in report.items() if verdict}
    assert (len(passed), invalid) == (n_passed, Counter())
