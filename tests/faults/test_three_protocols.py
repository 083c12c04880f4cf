"""The offline model over real HTTP, asked in each protocol: what it can grade it grades in all of them."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gagar_cli.grade import GradeSettings, run
from gagar_cli.grader.client import EndpointSettings

DEMO = Path(__file__).parents[2] / "gagar_cli/demo_data/demo-rollouts.jsonl"
FULL_LOGS = Path(__file__).parents[3] / "shared/data/canonical_full_logs.jsonl"
PROTOCOLS = ("tools", "json-schema", "text")


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    command = [sys.executable, "-m", "gagar_cli", "offline-endpoint", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield re.search(r"http://\S+/v1", process.stderr.readline())[0]
        finally:
            process.terminate()


def grade(dump: Path, output: Path, base_url: str, protocol: str) -> list[dict]:
    run(GradeSettings((str(dump),), str(output), EndpointSettings("offline", base_url, protocol=protocol)))
    records = [json.loads(line) for line in output.read_text().splitlines()]
    return [record for record in records if record.get("status") in ("graded", "ungraded")]


def tiers(records: list[dict]) -> dict[tuple, str]:
    return {
        (record["group_id"], one["trajectory_id"]): one["tier"]
        for record in records
        for one in record["candidates"]
    }


def test_the_demo_is_graded_alike_in_every_protocol(tmp_path, base_url):
    graded = {
        protocol: grade(DEMO, tmp_path / f"{protocol}.jsonl", base_url, protocol) for protocol in PROTOCOLS
    }
    for protocol, records in graded.items():
        assert Counter(record["status"] for record in records) == {"graded": 3}
        assert {record["grader"]["protocol"] for record in records} == {protocol}
    assert tiers(graded["tools"]) == tiers(graded["json-schema"]) == tiers(graded["text"])


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not FULL_LOGS.exists(), reason="the reference data is not here")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nearly_every_group_with_full_logs_is_graded(tmp_path, base_url, protocol):
    records = grade(FULL_LOGS, tmp_path / "rankings.jsonl", base_url, protocol)
    statuses = Counter(record["status"] for record in records)
    assert statuses.total() >= 30
    assert statuses["graded"] >= 0.95 * statuses.total()
