"""Validation reads whole records only where there is something in them that the index does not check."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gagar_cli.io.dump import ReadOptions
from gagar_cli.tables_dumps import validate_table
from gagar_cli.validate import ValidateSettings, run

SCALARS = {"group_id": "g", "step": 1, "reward": 1.0, "n_turns": 3, "advantage": 0.5, "kind": {"a": [1]}}


def write(path: Path, more: list[dict[str, Any]]) -> tuple[str, ...]:
    records = [{**SCALARS, "trajectory_id": str(number), **each} for number, each in enumerate(more)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return (str(path),)


@pytest.mark.parametrize(
    ("last", "fields", "n_read"),
    [
        ({}, {}, 0),
        ({"test_output": "passed"}, {}, 3),
        ({"exit_status": None}, {}, 3),
        ({"base_commit": "abc"}, {}, 3),
        ({"log": "passed"}, {"test_output": "log"}, 3),
    ],
    ids=["scalars only", "a heavy field", "null", "of the task", "mapped"],
)
def test_what_is_read(tmp_path: Path, last: dict[str, Any], fields: dict[str, str], n_read: int) -> None:
    told: list[tuple[int, int]] = []
    settings = ValidateSettings(write(tmp_path / "dump.jsonl", [{}, {}, last]), ReadOptions(fields=fields))
    result = run(settings, lambda done, total, _: told.append((done, total)))
    assert told == ([(n_read, n_read)] if n_read else [])
    assert (result.n_records, result.n_groups, result.n_passed, result.problems) == (3, 1, 3, ())


def test_a_heavy_field_of_the_last_record_alone_is_checked(tmp_path: Path) -> None:
    settings = ValidateSettings(write(tmp_path / "dump.jsonl", [{}] * 99 + [{"model_patch": 7}]))
    result = run(settings)
    assert result.problems == (f"{tmp_path}/dump.jsonl:100: model_patch is 7, expected text or null",)
    assert result.n_problems == 1
    assert (result.n_records, result.n_bad_records) == (100, 0)


@pytest.mark.parametrize(
    ("bad", "n_records", "n_bad", "told"),
    [
        ([{"resolved": 2}], 3, 1, "4 (1 bad, 3 passed, 0 invalid)"),
        ([{"resolved": 2}] * 4, 0, 4, "4 (4 bad, 0 passed, 0 invalid)"),
        ([{"model_patch": 7}], 4, 0, "4 (1 bad, 4 passed, 0 invalid)"),
        ([], 4, 0, "4 (4 passed, 0 invalid)"),
    ],
    ids=["one", "all", "heavy", "none"],
)
def test_bad_records_are_counted_among_all(
    tmp_path: Path, bad: list[dict[str, Any]], n_records: int, n_bad: int, told: str
) -> None:
    result = run(ValidateSettings(write(tmp_path / "dump.jsonl", [{}] * (4 - len(bad)) + bad)))
    assert (result.n_records, result.n_bad_records) == (n_records, n_bad)
    assert (result.to_record()["n_records"], result.to_record()["n_bad_records"]) == (n_records, n_bad)
    stream = StringIO()
    Console(file=stream, width=200).print(validate_table(result))
    assert stream.getvalue().count(told) == 1


def test_the_hint_that_grading_has_comes_too(tmp_path: Path) -> None:
    for records in ([{}, {"resolved": 2}], [{"resolved": 2}] * 2):
        result = run(ValidateSettings(write(tmp_path / "dump.jsonl", records)))
        assert result.hint == "map the field that says it with `--field resolved=PATH`"
