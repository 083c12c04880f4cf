"""Joined reports with odd values in them."""

import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

from gagar_cli.errors import InputError
from gagar_cli.io.dump import ReadOptions, open_dump

ROWS = "".join(
    json.dumps({"group_id": "g", "instance_id": "i", "trajectory_id": f"t{number}", "reward": 1.0}) + "\n"
    for number in range(4)
)
ODD_VALUES: list[Any] = [
    None, True, -1, 1.5, 1e308, 10**30, "", "x", "\ud800", "\x00", [], [[]], {}, {"a": None}, ["a", 1], "i", "True", "nan",
]  # fmt: skip
REPORTS: list[Any] = [
    {"completed_ids": ["i", "j"], "resolved_ids": ["i"], "error_ids": ["j"], "failure_reasons": {"j": "x"}},
    {"stats": {"generated": 2, "with_logs": 2}, "resolved": ["i"]},
    {"ids_resolved": ["i"], "ids_unresolved": ["j"]},
    {"a-i": True, "a-j": False},
    {"i": {"patch_exists": True, "resolved": True, "infra_failure": False, "tests_status": {"FAIL_TO_PASS": {}}}},
    {"total": 1, "instances": [{"instance_id": "i", "resolved": True}]},
    {"run-1": {"i": 1}, "run-2": {"i": 0}},
    {"i": {"instance_id": "i", "model_patch": "p", "model_name_or_path": "m"}},
    {"instance_id": "i", "trajectory_id": "t0", "resolved": True, "reward": 1.0, "model_patch": "p", "attempt": 1, "step": 2},
]  # fmt: skip


def test_odd_reports_are_joined_or_refused(tmp_path: Path) -> None:
    """Values of every report put in the place of others: whatever comes, no more than an error of ours."""
    draw = random.Random(5)

    def changed(value: Any) -> Any:
        if draw.random() < 0.07:
            return draw.choice(ODD_VALUES)
        if isinstance(value, dict):
            return {name: changed(each) for name, each in value.items()}
        return [changed(each) for each in value] if isinstance(value, list) else value

    dump, report = tmp_path / "dump.jsonl", tmp_path / "report.json"
    dump.write_text(ROWS)
    n_read = 0
    for number in range(270):
        report.write_text(json.dumps(changed(REPORTS[number % len(REPORTS)])))
        with (
            suppress(InputError),
            open_dump([str(dump)], ReadOptions(joins=(str(report),), on_bad_record="skip")) as read,
        ):
            assert read.n_rows == 4
            list(read.iter_records())
            n_read += 1
    assert 50 < n_read < 220
