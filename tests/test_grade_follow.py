"""Grading while rollouts arrive: what starts when, what is late, and that a kill loses and doubles nothing."""

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

import polars as pl
import pytest

from gagar_cli import grade, grade_following, redistribute
from gagar_cli.core.spending import Budget
from gagar_cli.errors import InputError
from gagar_cli.grade import GradeSettings
from gagar_cli.grade_following import POLL_SECONDS, FollowOptions
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grading_summary import GradeResult
from gagar_cli.io.rankings import latest_rankings, read_rankings

DEMO = Path(str(files("gagar_cli").joinpath("demo_data/demo-rollouts.jsonl")))
RECORDS = [json.loads(line) for line in DEMO.read_text().splitlines()]
GROUP = "shelfmark__shelfmark-44"
END = '{"end_of_dump": true}\n'


def lines_of(records: list[dict]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def append(path: Path, text: str) -> None:
    with path.open("a") as stream:
        stream.write(text)


def group_records(group_id: str = GROUP) -> list[dict]:
    return [record for record in RECORDS if record["group_id"] == group_id]


def statuses(path: str | Path) -> list[tuple[str, str]]:
    return [(ranking.key.group_id, ranking.status) for ranking in read_rankings(str(path))]


def comparable(path: str | Path) -> dict:
    lines = {}
    for ranking in read_rankings(str(path)):
        grader = {
            name: ranking.grader[name]
            for name in ranking.grader
            if name not in ("seconds", "calls", "tokens")
        }
        lines[ranking.key] = replace(ranking, grader=grader)
    return lines


def wait_for(is_true: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def run(settings: GradeSettings, options: FollowOptions) -> GradeResult:
    """Follow; a run whose writer failed ends too, so that the test fails and does not hang."""
    if options.idle_seconds is None:
        options = replace(options, idle_seconds=60.0)
    return grade_following.run(settings, options)


@pytest.fixture
def dump(tmp_path) -> Path:
    return tmp_path / "rollouts.jsonl"


@pytest.fixture
def settings(dump, tmp_path) -> GradeSettings:
    return GradeSettings(
        (str(dump),), str(tmp_path / "rankings.jsonl"), EndpointSettings("offline"), sandbox="inspect-only"
    )


def test_a_dump_that_is_all_there_gives_the_rankings_of_an_ordinary_run(settings, dump, tmp_path):
    dump.write_text(lines_of(RECORDS) + END)
    followed = run(settings, FollowOptions())
    ordinary = grade.run(replace(settings, output=str(tmp_path / "ordinary.jsonl")))
    assert comparable(settings.output) == comparable(tmp_path / "ordinary.jsonl")
    assert (followed.n_groups, followed.n_eligible, followed.n_graded) == (4, 3, 3)
    assert (followed.n_trajectories, followed.skipped) == (ordinary.n_trajectories, ordinary.skipped)


def test_groups_are_graded_while_others_arrive_and_the_last_soon_after_its_last_rollout(settings, dump):
    """The last rollout is held back until every other group is graded: then only its own group's time is left."""
    *most, last = sorted(RECORDS, key=lambda record: record["group_id"] == GROUP)
    ends = {record["group_id"]: record for record in most if record["group_id"] != GROUP}
    n_others = len(ends)
    last_seconds = 0.0

    def write() -> None:
        nonlocal last_seconds
        for record in most:
            append(dump, lines_of([record]))
            if record is ends.get(record["group_id"]):
                mark = {"end_of_group": True, "group_id": record["group_id"], "step": record["step"]}
                append(dump, json.dumps(mark) + "\n")
        output = Path(settings.output)
        try:
            wait_for(lambda: output.exists() and output.read_bytes().count(b"\n") == n_others)
        finally:
            # Whatever became of the others: the run ends.
            append(dump, lines_of([last]) + END)
            last_seconds = time.monotonic()

    writer = threading.Thread(target=write)
    writer.start()
    result = run(settings, FollowOptions())
    ended_seconds = time.monotonic()
    writer.join()
    assert statuses(settings.output)[-1] == (GROUP, "graded")
    assert result.n_graded == 3
    latest = latest_rankings(read_rankings(settings.output))
    group_seconds = next(each.grader["seconds"] for key, each in latest.items() if key.group_id == GROUP)
    # Slack for a machine that others use too; a run that waited for more would take a poll or a group longer each.
    assert ended_seconds - last_seconds <= group_seconds + 2 * POLL_SECONDS + 2.0


def test_groups_that_are_whole_first_are_graded_first(settings, dump):
    first, second = group_records("shelfmark__shelfmark-31"), group_records()
    interleaved = [second[0], *first, *second[1:]]
    dump.write_text(lines_of(interleaved) + END)
    size = min(len(first), len(second))
    run(replace(settings, concurrency=1), FollowOptions(group_size=size))
    assert [name for name, _ in statuses(settings.output)] == ["shelfmark__shelfmark-31", GROUP]


def follow_in_background(settings: GradeSettings, options: FollowOptions) -> tuple[threading.Thread, list]:
    results: list = []
    thread = threading.Thread(target=lambda: results.append(run(settings, options)))
    thread.start()
    return thread, results


def graded_then_late(settings: GradeSettings, dump: Path, *, regrade_late: bool):
    """A run in which one trajectory of the group arrives after the group was graded."""
    records = group_records()
    dump.write_text(lines_of(records[:-1]))
    options = FollowOptions(group_size=len(records) - 1, regrade_late=regrade_late)
    thread, results = follow_in_background(settings, options)
    wait_for(lambda: Path(settings.output).exists() and len(Path(settings.output).read_bytes()) > 0)
    append(dump, lines_of(records[-1:]) + END)
    thread.join(60)
    return results[0]


def test_a_late_rollout_takes_its_group_out_of_redistribution(settings, dump, tmp_path):
    result = graded_then_late(settings, dump, regrade_late=False)
    assert (result.n_late, result.n_graded, result.ungraded) == (1, 0, {"late": 1})
    last = list(read_rankings(settings.output))[-1]
    assert last.reason == "late: 1 trajectory arrived after it was graded"
    assert last.grader["late"] == [group_records()[-1]["trajectory_id"]]
    out = redistribute.RedistributeSettings((str(dump),), settings.output, str(tmp_path / "a.parquet"))
    moved = redistribute.run(out)
    assert moved.n_groups["ungraded"] == 1
    frame = pl.read_parquet(out.output)
    assert frame["advantage"].equals(frame["advantage_base"])


def test_a_late_rollout_is_graded_with_its_group_on_request(settings, dump):
    result = graded_then_late(settings, dump, regrade_late=True)
    assert (result.n_late, result.n_graded, result.n_ungraded) == (1, 1, 0)
    assert [status for _, status in statuses(settings.output)] == ["graded", "graded"]
    seen = list(read_rankings(settings.output))[-1].grader["blind_ids"].values()
    assert group_records()[-1]["trajectory_id"] in seen


def test_a_mark_of_lateness_stands_until_somebody_grades_again(settings, dump):
    graded_then_late(settings, dump, regrade_late=False)
    again = run(settings, FollowOptions(group_size=3))
    assert (again.n_resumed, again.n_late, again.ungraded) == (1, 1, {"late": 1})
    assert grade.run(settings).n_graded == 1
    assert run(settings, FollowOptions()).n_resumed == 1


def test_what_arrived_while_the_run_was_down_is_late_too(settings, dump):
    records = group_records()
    dump.write_text(lines_of(records[:-1]) + END)
    assert run(settings, FollowOptions()).n_graded == 1
    append(dump, lines_of(records[-1:]))
    result = run(settings, FollowOptions())
    assert (result.n_late, result.ungraded) == (1, {"late": 1})
    assert run(settings, FollowOptions(regrade_late=True)).n_graded == 1


def test_an_invalid_late_rollout_changes_nothing(settings, dump):
    records = group_records()
    dump.write_text(lines_of(records) + END)
    run(settings, FollowOptions())
    append(dump, lines_of([{**records[0], "trajectory_id": "new", "infra_failure": True}]))
    result = run(settings, FollowOptions())
    assert (result.n_late, result.n_resumed, result.n_graded) == (0, 1, 1)


def test_a_skipped_group_is_looked_at_again_when_something_arrives(settings, dump):
    records = group_records()
    passing = [record for record in records if record["resolved"]]
    failing = [record for record in records if record["resolved"] is False]
    dump.write_text(lines_of(passing))
    thread, results = follow_in_background(settings, FollowOptions(group_size=len(passing)))
    wait_for(lambda: Path(settings.output).exists() and len(Path(settings.output).read_bytes()) > 0)
    append(dump, lines_of(failing) + END)
    thread.join(60)
    assert [status for _, status in statuses(settings.output)] == ["skipped", "graded"]
    assert results[0].n_late == 0


def test_quiet_makes_groups_whole_and_idleness_ends_the_run(settings, dump):
    dump.write_text(lines_of(RECORDS))
    result = run(settings, FollowOptions(quiet_seconds=0.1, idle_seconds=0.6))
    assert (result.n_graded, result.skipped) == (3, {"all_pass": 1})


def test_limit_shard_and_budget_hold_while_following(settings, dump):
    dump.write_text(lines_of(RECORDS) + END)
    one = replace(settings, max_groups=1, concurrency=1)
    assert run(one, FollowOptions()).n_graded == 1
    spent = replace(settings, budget=Budget(max_tokens=1))
    stopped = run(spent, FollowOptions())
    assert stopped.stopped is not None
    assert (stopped.n_graded, stopped.n_resumed) == (1, 1)
    shards = [
        run(replace(settings, shard=f"{n}/2", output=f"{settings.output}{n}.jsonl"), FollowOptions())
        for n in (1, 2)
    ]
    assert sum(shard.n_groups for shard in shards) == 4
    assert sum(shard.n_graded for shard in shards) == 3


def test_a_bad_line_ends_the_run_with_its_place_and_what_is_done_stays(settings, dump):
    dump.write_text(lines_of(group_records()))
    thread = threading.Thread(
        target=lambda: (
            wait_for(lambda: GROUP.encode() in Path(settings.output).read_bytes()),
            append(dump, "{x\n"),
        )
    )
    Path(settings.output).touch()
    thread.start()
    with pytest.raises(InputError, match=r"rollouts\.jsonl:9:2: invalid JSON"):
        run(settings, FollowOptions(group_size=8))
    thread.join()
    assert statuses(settings.output) == [(GROUP, "graded")]


def test_a_group_in_work_is_finished_when_a_bad_line_ends_the_run(settings, dump):
    """The endpoint answers, with a refusal, only after the bad line was read."""
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

    def write() -> None:
        is_asked.wait(30)
        append(dump, "{x\n")
        time.sleep(3 * POLL_SECONDS)
        may_answer.set()

    dump.write_text(lines_of(group_records()))
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        writer = threading.Thread(target=write)
        writer.start()
        endpoint = EndpointSettings("m", f"http://127.0.0.1:{server.server_port}/v1")
        with pytest.raises(InputError, match=r"rollouts\.jsonl:9:2: invalid JSON"):
            run(replace(settings, endpoint=endpoint), FollowOptions(group_size=8))
        writer.join()
        server.shutdown()
    assert statuses(settings.output) == [(GROUP, "ungraded")]


def test_killed_and_resumed_while_rollouts_arrive_it_ends_with_the_rankings_of_a_calm_run(
    settings, dump, tmp_path
):
    copies = [
        {
            **record,
            "group_id": f"{record['group_id']}-{copy}",
            "trajectory_id": f"{record['trajectory_id']}-{copy}",
        }
        for copy in range(2)
        for record in RECORDS
    ]
    command = [
        sys.executable,
        "-m",
        "gagar_cli",
        "grade",
        str(dump),
        "-o",
        settings.output,
        "--model",
        "offline",
    ]
    command += ["--follow", "--sandbox", "inspect-only", "-q", "--concurrency", "2", "--idle-seconds", "60"]
    for part in range(2):
        append(dump, lines_of(copies[part * 28 : (part + 1) * 28]))
        for record in {each["group_id"]: each for each in copies[part * 28 : (part + 1) * 28]}.values():
            mark = {"end_of_group": True, "group_id": record["group_id"], "step": record["step"]}
            append(dump, json.dumps(mark) + "\n")
        if part == 1:
            break
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        n_before = Path(settings.output).read_bytes().count(b"\n") if part else 0
        wait_for(
            lambda n=n_before: (
                Path(settings.output).exists() and Path(settings.output).read_bytes().count(b"\n") > n
            )
        )
        process.send_signal(signal.SIGKILL)
        process.wait()
    append(dump, END)
    assert run(replace(settings, concurrency=2), FollowOptions()).n_graded == 6
    grade.run(replace(settings, output=str(tmp_path / "calm.jsonl")))
    assert comparable(settings.output) == comparable(tmp_path / "calm.jsonl")
    keys = [ranking.key for ranking in read_rankings(settings.output)]
    assert len(keys) == len(set(keys)) == 8
