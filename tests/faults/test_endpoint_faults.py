"""Faults of an endpoint by the thousand, in each protocol: no ranking is lost, doubled or changed by them."""

import json
import time
from pathlib import Path

import pytest

from gagar_cli.grade import GradeSettings, run
from gagar_cli.grader.client import EndpointSettings

RUNS = {"tools": (200, 40), "json-schema": (60, 12), "text": (60, 12)}
"""Groups, and how often each of the 25 faults comes, by protocol."""
MAX_SECONDS = 60

PATCH = """\
diff --git a/src/part_{n}.py b/src/part_{n}.py
--- a/src/part_{n}.py
+++ b/src/part_{n}.py
@@ -1,2 +1,{size} @@
 def total(rows):
-    return sum(rows)
{extra}+    return sum(row.value for row in rows) + {n}
"""


def write_dump(path: Path, n_groups: int) -> None:
    noise = '+    print("debugging the rows", rows)\n'
    records = []
    for n in range(n_groups):
        patches = {
            "good": PATCH.format(n=n, size=2, extra=""),
            "noisy": PATCH.format(n=n, size=3, extra=noise),
            "failed": "",
        }
        records += [
            {
                "group_id": f"task-{n}",
                "trajectory_id": f"{n}-{name}",
                "reward": float(name != "failed"),
                "model_patch": patch,
                "problem_statement": "total() ignores row.value",
            }
            for name, patch in patches.items()
        ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def grade(dump: Path, output: Path, base_url: str | None, protocol: str = "tools") -> list[dict]:
    endpoint = EndpointSettings(
        "offline", base_url, protocol=protocol, call_seconds=0.7, backoff_seconds=0.01, max_attempts=8
    )
    run(GradeSettings((str(dump),), str(output), endpoint, concurrency=8))
    records = [json.loads(line) for line in output.read_text().splitlines()]
    return [record for record in records if "group_id" in record]


def without_costs(record: dict) -> dict:
    """A record as two runs must agree on it; its checksum covers its costs too."""
    told = {
        name: value for name, value in record["grader"].items() if name not in ("seconds", "calls", "tokens")
    }
    return {**record, "grader": told, "checksum": None}


def by_group(records: list[dict]) -> dict[str, dict]:
    assert len({record["group_id"] for record in records}) == len(records)
    return {record["group_id"]: without_costs(record) for record in records}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", RUNS)
def test_many_faults_lose_double_and_change_no_ranking(tmp_path, serve_faults, protocol):
    n_groups, n_each = RUNS[protocol]
    dump = tmp_path / "dump.jsonl"
    write_dump(dump, n_groups)
    sound = serve_faults(n_each=0, seed=0)
    clean = by_group(grade(dump, tmp_path / "clean.jsonl", sound.base_url, protocol))
    endpoint = serve_faults(n_each=n_each, seed=11)
    started = time.monotonic()
    faulty = by_group(grade(dump, tmp_path / "faulty.jsonl", endpoint.base_url, protocol))
    seconds = time.monotonic() - started
    assert endpoint.n_served.total() == 25 * n_each
    assert set(endpoint.n_served.values()) == {n_each}
    assert len(clean) == n_groups
    assert {(record["status"], record["grader"]["protocol"]) for record in clean.values()} == {
        ("graded", protocol)
    }
    assert faulty == clean
    assert seconds < MAX_SECONDS


@pytest.mark.parametrize("protocol", RUNS)
def test_every_fault_once_changes_no_ranking(tmp_path, serve_faults, protocol):
    dump = tmp_path / "dump.jsonl"
    write_dump(dump, 6)
    clean = by_group(grade(dump, tmp_path / "clean.jsonl", None, protocol))
    endpoint = serve_faults(n_each=1, seed=3)
    faulty = by_group(grade(dump, tmp_path / "faulty.jsonl", endpoint.base_url, protocol))
    assert endpoint.n_served.total() == 25
    assert {record["status"] for record in clean.values()} == {"graded"}
    assert faulty == clean
