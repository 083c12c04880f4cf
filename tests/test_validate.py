"""Validation reads whole records only where there is something in them that the index does not check."""

import json
from pathlib import Path
from typing import Any

import pytest

from gagar_cli.io.dump import ReadOptions
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
