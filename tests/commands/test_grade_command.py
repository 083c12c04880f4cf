import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

DUMP = str(files("gagar_cli").joinpath("demo_data/demo-rollouts.jsonl"))


def gagar(*arguments: str, cwd=None, text=None, env=None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gagar_cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, input=text, timeout=120, env=env)


def grade(*arguments: str, cwd, dump: str = DUMP, **options) -> subprocess.CompletedProcess[str]:
    return gagar("grade", dump, "--sandbox", "inspect-only", *arguments, cwd=cwd, **options)


def test_the_table_is_on_stdout_and_notes_on_stderr(tmp_path):
    done = grade("-o", "r.jsonl", "--model", "offline", cwd=tmp_path)
    assert done.returncode == 0
    assert "3 of 4 groups (75%)" in done.stdout
    # Nothing is told of what was asked for.
    assert "sandbox" not in done.stderr


def test_the_sandbox_that_was_found_is_told(tmp_path, gagar):
    done = gagar("grade", DUMP, "-o", tmp_path / "r.jsonl", "--model", "offline")
    assert done.stderr.startswith("note: sandbox: inspect-only: no repository or image is supplied")


def test_json_is_one_object_and_quiet_is_quiet(tmp_path, gagar):
    asked = ("--sandbox", "inspect-only", "--model", "offline", "--json", "-q")
    done = gagar("grade", DUMP, "-o", tmp_path / "r.jsonl", *asked)
    assert json.loads(done.stdout)["n_candidates_by_tier"].keys() == {"T1", "T2", "T3"}
    assert done.stderr == ""


def test_records_stream_to_stdout_and_the_summary_to_stderr(tmp_path):
    done = grade("-o", "-", "--model", "offline", cwd=tmp_path)
    assert {json.loads(line)["status"] for line in done.stdout.splitlines()} == {"graded", "skipped"}
    assert "3 of 4 groups" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_stream_can_keep_a_ledger_and_go_on(tmp_path):
    first = grade("-o", "-", "--ledger", "l.jsonl", "--model", "offline", "-q", cwd=tmp_path)
    again = grade("-o", "-", "--ledger", "l.jsonl", "--model", "offline", cwd=tmp_path)
    assert sorted(first.stdout.splitlines()) == sorted(again.stdout.splitlines())
    assert "3 settled by an earlier run" in again.stderr


def test_a_dump_comes_from_stdin(tmp_path):
    with Path(DUMP).open() as stream:
        done = grade(
            "-o", "r.jsonl", "--model", "offline", "--json", dump="-", cwd=tmp_path, text=stream.read()
        )
    assert json.loads(done.stdout)["n_graded"] == 3


def test_grade_and_redistribute_work_as_a_pipe(tmp_path):
    ranked = grade("-o", "-", "--model", "offline", "-q", cwd=tmp_path)
    done = gagar("redistribute", DUMP, "--rankings", "-", "-o", "-", "-q", cwd=tmp_path, text=ranked.stdout)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 28
    assert abs(sum(row["advantage"] or 0 for row in rows)) < 1e-9


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-o", "-", "--json", "--model", "offline"], 2, "both want stdout"),
        (["-o", "r.jsonl", "--ledger", "l", "--model", "offline"], 2, "--ledger is only for"),
        (["-o", "r.jsonl", "--model", "m"], 2, "needs --base-url"),
        (["-o", "r.jsonl", "--model", "m", "--base-url", "ftp://x"], 2, "not an http"),
        (["-o", "r.jsonl", "--model", "m", "--base-url", "http://u:secret@h/v1"], 2, "holds credentials"),
        (
            ["-o", "r.jsonl", "--model", "m", "--base-url", "https://models.example/v1"],
            2,
            "NO_SUCH_KEY is not set",
        ),
        (["-o", "r.jsonl", "--model", "offline", "--extra-body", "[1]"], 2, "no JSON object"),
        (["-o", "r.jsonl", "--model", "offline", "--extra-body", '{"a": NaN}'], 2, "not JSON: it holds NaN"),
        (["-o", "r.jsonl", "--model", "m", "--base-url", "http://[::1"], 2, "not an http"),
        (["-o", "r.jsonl", "--model", "offline", "--header", "nocolon"], 2, "NAME:VALUE"),
        (["-o", "r.jsonl", "--model", "offline", "--field", "reward"], 2, "CANONICAL=PATH"),
        (["-o", "r.jsonl", "--model", "offline", "--sandbox", "magic"], 2, "expected one of auto"),
        (["-o", "absent/r.jsonl", "--model", "offline"], 1, "no such directory"),
        (["-o", "r.jsonl", "--model", "offline", "--field", "reward=nowhere"], 3, "no record has"),
        (
            ["-o", "r.jsonl", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--call-attempts", "1"],
            1,
            "no group was graded, 3 ungraded",
        ),
    ],
)
def test_what_cannot_be_done_is_told_with_its_code(tmp_path, monkeypatch, gagar, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    asked = ("--sandbox", "inspect-only", "--api-key-env", "NO_SUCH_KEY")
    done = gagar("grade", DUMP, *asked, *arguments)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr


def test_the_key_is_nowhere_but_in_the_request(tmp_path, serve):
    endpoint = serve(*[(400, {"error": {"message": "no"}})] * 3)
    environment = {**os.environ, "GRADER_KEY": "sk-canary-123"}
    arguments = [
        "-o",
        "r.jsonl",
        "--model",
        "m",
        "--base-url",
        endpoint.base_url,
        "--api-key-env",
        "GRADER_KEY",
    ]
    done = grade(*arguments, cwd=tmp_path, env=environment)
    assert done.returncode == 1
    assert {name.lower(): value for name, value in endpoint.headers[0].items()}[
        "authorization"
    ] == "Bearer sk-canary-123"
    assert "canary" not in done.stdout + done.stderr
    assert not [path for path in tmp_path.iterdir() if b"canary" in path.read_bytes()]


def test_a_gate_on_ungraded_groups_exits_4(tmp_path, gagar, serve, chat):
    prose = chat(content="I cannot decide.")
    endpoint = serve(*[prose] * 4)
    # Of one protocol: another would be tried, and a fifth reply asked for.
    command = ["grade", DUMP, "-o", tmp_path / "r.jsonl", "--model", "offline", "--protocol", "tools"]
    command += ["--sandbox", "inspect-only"]
    gagar(*command, "--limit", "2", "-q")
    arguments = ["--base-url", endpoint.base_url, "--max-ungraded", "0.1", "--concurrency", "1"]
    done = gagar(*command, *arguments)
    assert done.returncode == 4, done.stderr
    assert "33.3% of the groups are ungraded" in done.stderr
    assert len(endpoint.requests) == 4


def test_the_offline_model_ignores_an_exported_endpoint(tmp_path):
    environment = {**os.environ, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "sk-canary"}
    done = grade("-o", "r.jsonl", "--model", "offline", "--json", cwd=tmp_path, env=environment)
    assert json.loads(done.stdout)["n_graded"] == 3


def test_an_exported_endpoint_is_used_by_other_models(tmp_path, serve):
    endpoint = serve(*[(400, {"error": {"message": "no"}})] * 3)
    environment = {**os.environ, "OPENAI_BASE_URL": endpoint.base_url}
    assert grade("-o", "r.jsonl", "--model", "m", cwd=tmp_path, env=environment).returncode == 1
    assert len(endpoint.requests) == 3
