"""Grading while trainers still write, in their own formats, with verdicts that come later, and through a pipe."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from gagar_cli import grade, grade_following, redistribute
from gagar_cli.errors import InputError
from gagar_cli.grade import GradeSettings
from gagar_cli.grade_following import FollowOptions
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.io.dump import ReadOptions
from gagar_cli.io.rankings import read_rankings

DEMO = Path(str(files("gagar_cli").joinpath("demo_data/demo-rollouts.jsonl")))
RECORDS = [json.loads(line) for line in DEMO.read_text().splitlines()]
GROUPS = list(dict.fromkeys(record["group_id"] for record in RECORDS))
GROUP = "shelfmark__shelfmark-44"
POLL_SECONDS = 0.1
"""Between two looks at a dump: several of them show that nothing happens."""


def nemo(record: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A record of the demo as a rollout of NeMo-Gym."""
    told = [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": str(each["content"])}],
        }
        for each in record["messages"]
        if each["role"] == "assistant"
    ]
    return {
        "_ng_task_index": GROUPS.index(record["group_id"]),
        "_ng_rollout_id": record["trajectory_id"],
        "instance_id": record["group_id"],
        "responses_create_params": {"input": [{"role": "user", "content": "fix it"}]},
        "response": {"output": told},
        "reward": None if record["resolved"] is None else float(record["resolved"]),
        "model_patch": record["model_patch"],
        **more,
    }


def verl(record: dict[str, Any], step: int) -> dict[str, Any]:
    text = f"user\n{record['group_id']}\nassistant\n"
    return {"input": text, "output": "done", "gts": None, "score": float(record["resolved"]), "step": step}


def lines_of(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def comparable(path: str | Path) -> dict[Any, Any]:
    lines = {}
    for ranking in read_rankings(str(path)):
        dropped = ("seconds", "calls", "tokens")
        grader = {name: value for name, value in ranking.grader.items() if name not in dropped}
        lines[ranking.key] = replace(ranking, grader=grader)
    return lines


def wait_for(is_true: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def n_lines(path: str | Path) -> int:
    return Path(path).read_bytes().count(b"\n") if Path(path).exists() else 0


def run(settings: GradeSettings, **options: Any) -> grade.GradeResult:
    """Follow; a run whose writer failed ends too."""
    return grade_following.run(settings, FollowOptions(**{"idle_seconds": 30.0, **options}))


def in_background(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    return thread, results


@pytest.fixture(autouse=True)
def looks_often(monkeypatch) -> None:
    monkeypatch.setattr(grade_following, "POLL_SECONDS", POLL_SECONDS)


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "rollouts").mkdir()
    return tmp_path / "rollouts"


@pytest.fixture
def settings(folder, tmp_path) -> GradeSettings:
    return GradeSettings(
        (str(folder),), str(tmp_path / "rankings.jsonl"), EndpointSettings("offline"), sandbox="inspect-only"
    )


def halves() -> list[list[dict[str, Any]]]:
    """The demo's groups in two steps."""
    first = set(GROUPS[:2])
    return [
        [each for each in RECORDS if (each["group_id"] in first) is is_first] for is_first in (True, False)
    ]


def test_each_steps_groups_are_graded_before_the_next_step_is_there(settings, folder, tmp_path):
    """With the ids that the whole dump will have: redistribution takes the rankings."""
    size = min(sum(each["group_id"] == group for each in RECORDS) for group in GROUPS)
    thread, results = in_background(lambda: run(settings, group_size=size))
    for step, half in enumerate(halves(), 1):
        kept = [[each for each in half if each["group_id"] == group][:size] for group in GROUPS]
        rows = [verl(each, step) for group in kept for each in group]
        with (folder / f"{step}.jsonl").open("a") as stream:
            for row in rows:
                stream.write(json.dumps(row) + "\n")
                stream.flush()
        wait_for(lambda n=2 * step: n_lines(settings.output) == n)
    (folder / "_SUCCESS").touch()
    thread.join(60)
    assert (results[0].n_groups, results[0].n_late) == (4, 0)
    grade.run(replace(settings, output=str(tmp_path / "ordinary.jsonl")))
    assert comparable(settings.output) == comparable(tmp_path / "ordinary.jsonl")
    out = redistribute.RedistributeSettings((str(folder),), settings.output, str(tmp_path / "a.parquet"))
    assert redistribute.run(out).n_groups.get("stale", 0) == 0


def test_a_native_dump_that_is_all_there_gives_the_rankings_of_an_ordinary_run(settings, folder, tmp_path):
    (folder / "rollouts.jsonl").write_text(lines_of([nemo(each) for each in RECORDS]))
    (folder / "_SUCCESS").touch()
    followed = run(settings)
    ordinary = grade.run(replace(settings, output=str(tmp_path / "ordinary.jsonl")))
    assert comparable(settings.output) == comparable(tmp_path / "ordinary.jsonl")
    assert (
        (followed.n_graded, followed.skipped) == (ordinary.n_graded, ordinary.skipped) == (3, {"all_pass": 1})
    )


def test_a_group_waits_for_its_verdicts(settings, folder, tmp_path):
    """Without them `--quiet-seconds` means nothing, and the end of the dump neither."""
    verdicts = tmp_path / "verdicts.jsonl"
    records = [each for each in RECORDS if each["group_id"] == GROUP]
    rows = [nemo(each, reward=None) for each in records]
    (folder / "rollouts.jsonl").write_text(lines_of(rows))
    (folder / "_SUCCESS").touch()
    joined = replace(settings, read=ReadOptions(joins=(str(verdicts),)))
    thread, results = in_background(lambda: run(joined, quiet_seconds=0.0))
    time.sleep(5 * POLL_SECONDS)
    told = [
        {"instance_id": GROUP, "trajectory_id": each["trajectory_id"], "resolved": each["resolved"]}
        for each in records
    ]
    verdicts.write_text(lines_of(told[:-1]))
    time.sleep(5 * POLL_SECONDS)
    assert (n_lines(settings.output), thread.is_alive()) == (0, True)
    with verdicts.open("a") as stream:
        stream.write(lines_of(told[-1:]))
    thread.join(60)
    assert (results[0].n_graded, results[0].n_late) == (1, 0)
    grade.run(replace(joined, output=str(tmp_path / "ordinary.jsonl")))
    assert comparable(settings.output) == comparable(tmp_path / "ordinary.jsonl")


def test_a_verdict_that_comes_after_its_group_was_graded_is_late(settings, folder, tmp_path):
    verdicts = tmp_path / "verdicts.jsonl"
    records = [each for each in RECORDS if each["group_id"] == GROUP]
    told = [
        {"instance_id": GROUP, "trajectory_id": each["trajectory_id"], "resolved": each["resolved"]}
        for each in records
    ]
    (folder / "rollouts.jsonl").write_text(lines_of([nemo(each, reward=None) for each in records]))
    (folder / "_SUCCESS").touch()
    verdicts.write_text(lines_of(told[:-1]))
    joined = replace(settings, read=ReadOptions(joins=(str(verdicts),)))
    thread, results = in_background(lambda: run(joined, group_size=len(told) - 1))
    wait_for(lambda: n_lines(settings.output) == 1)
    with verdicts.open("a") as stream:
        stream.write(lines_of(told[-1:]))
    thread.join(60)
    assert (results[0].n_late, results[0].ungraded) == (1, {"late": 1})


def test_a_shard_that_is_written_again_unchanged_is_not_graded_again(settings, folder):
    for number in range(3):
        (folder / f"t_{number}.json").write_text(episode("t", number))
    thread, results = in_background(lambda: run(settings, group_size=3))
    wait_for(lambda: n_lines(settings.output) == 1)
    shard = folder / "t_0.json"
    shard.write_text(json.dumps(json.loads(shard.read_text()), indent=1))
    time.sleep(5 * POLL_SECONDS)
    (folder / "_SUCCESS").touch()
    thread.join(60)
    assert n_lines(settings.output) == 1
    assert (results[0].n_groups, results[0].n_trajectories, results[0].n_late) == (1, 3, 0)


def episode(task: str, number: int) -> str:
    steps = [{"chat_completions": [{"role": "assistant", "content": "a"}]}]
    is_correct = number > 0
    return json.dumps(
        {
            "episode_id": f"{task}:{number}",
            "task_hash": task,
            "is_correct": is_correct,
            "trajectories": [{"steps": steps, "reward": float(is_correct)}],
        }
    )


def test_a_group_whose_file_is_rewritten_while_it_waits_for_its_turn_waits_for_the_file(settings, folder):
    """The endpoint holds the first group; meanwhile a file of the second one is torn, and whole again later."""
    is_asked, may_answer = threading.Event(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            is_asked.set()
            may_answer.wait(30)
            self.send_response(400)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    def write(task: str) -> None:
        for number in range(3):
            (folder / f"{task}_{number}.json").write_text(episode(task, number))

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        endpoint = EndpointSettings("m", f"http://127.0.0.1:{server.server_port}/v1")
        one = replace(settings, endpoint=endpoint, concurrency=1)
        write("first")
        thread, results = in_background(lambda: run(one, group_size=3))
        try:
            is_asked.wait(30)
            write("second")
            time.sleep(6 * POLL_SECONDS)
            (folder / "second_1.json").write_text("{")
            time.sleep(4 * POLL_SECONDS)
            may_answer.set()
            wait_for(lambda: n_lines(settings.output) == 1)
            time.sleep(4 * POLL_SECONDS)
            assert n_lines(settings.output) == 1
            write("second")
            wait_for(lambda: n_lines(settings.output) == 2)
        finally:
            # Whatever became of it: the run ends.
            may_answer.set()
            (folder / "_SUCCESS").touch()
            thread.join(60)
            server.shutdown()
    assert [each.status for each in read_rankings(settings.output)] == ["ungraded", "ungraded"]
    assert results[0].n_trajectories == 6


COMMAND = [sys.executable, "-m", "gagar_cli", "grade"]
FLAGS = ["--model", "offline", "--sandbox", "inspect-only", "--follow", "--idle-seconds", "60", "--json"]


def test_lines_that_come_through_a_pipe_are_graded_as_they_come(tmp_path):
    output = tmp_path / "rankings.jsonl"
    size = sum(each["group_id"] == GROUP for each in RECORDS)
    command = [*COMMAND, "-", "-o", str(output), *FLAGS, "--group-size", str(size)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        mine = [each for each in RECORDS if each["group_id"] == GROUP]
        process.stdin.write(lines_of(mine))
        process.stdin.flush()
        wait_for(lambda: n_lines(output) == 1)
        told, _ = process.communicate(
            lines_of([each for each in RECORDS if each["group_id"] != GROUP]), timeout=60
        )
    assert process.returncode == 0
    assert (json.loads(told)["n_groups"], json.loads(told)["n_graded"]) == (4, 3)


def test_killed_again_and_again_each_native_group_is_graded_once(settings, folder, tmp_path):
    copies = [
        nemo({**record, "trajectory_id": f"{record['trajectory_id']}-{copy}"})
        | {"instance_id": f"{record['group_id']}-{copy}", "_ng_task_index": None}
        for copy in range(3)
        for record in RECORDS
    ]
    size = min(sum(each["group_id"] == group for each in RECORDS) for group in GROUPS)
    kept: dict[str, int] = {}
    rows = [each for each in copies if kept.setdefault(each["instance_id"], 0) < size and _count(kept, each)]
    command = [
        *COMMAND,
        str(folder),
        "-o",
        settings.output,
        *FLAGS,
        "--group-size",
        str(size),
        "--concurrency",
        "2",
    ]
    for part in range(3):
        n_groups = 4 * part
        with (folder / f"{part}.jsonl").open("a") as stream:
            stream.write(lines_of(rows[part * 4 * size : (part + 1) * 4 * size]))
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            wait_for(lambda n=n_groups: n_lines(settings.output) > n)
            process.send_signal(signal.SIGKILL)
    (folder / "_SUCCESS").touch()
    run(settings, group_size=size)
    keys = [ranking.key for ranking in read_rankings(settings.output)]
    assert len(keys) == len(set(keys)) == 12
    grade.run(replace(settings, output=str(tmp_path / "calm.jsonl")))
    assert comparable(settings.output) == comparable(tmp_path / "calm.jsonl")


def _count(kept: dict[str, int], row: dict[str, Any]) -> bool:
    kept[row["instance_id"]] += 1
    return True


def test_a_folder_that_no_format_can_be_followed_in_is_refused(settings, folder):
    (folder / "1.pt").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match="reading it may run any code"):
        run(settings)


def test_a_dump_that_ends_without_a_record_is_no_success(settings, folder):
    (folder / "report.json").write_text(json.dumps({"resolved_ids": ["a__a-1"]}))
    (folder / "_SUCCESS").touch()
    with pytest.raises(InputError, match="rollouts: no records") as refused:
        run(settings)
    assert "no attempts in 1 of its files" in str(refused.value.hint)
