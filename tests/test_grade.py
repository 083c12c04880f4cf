import io
import json
import random
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest
import zstandard

from gagar_cli.errors import EndpointError, InputError, OutputError, UsageError
from gagar_cli.grade import GradeSettings, run
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grader.loop import GroupLimits
from gagar_cli.io.dump import ReadOptions
from gagar_cli.io.rankings import latest_rankings, read_rankings

DEMO = Path(str(files("gagar_cli").joinpath("demo_data")))


def demo_records() -> list[dict]:
    return [json.loads(line) for line in (DEMO / "demo-rollouts.jsonl").read_text().splitlines()]


@pytest.fixture
def dump(tmp_path) -> Path:
    """The demo dump without its repository and sandbox: four groups, three of them eligible."""
    path = tmp_path / "dump.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in demo_records()))
    return path


@pytest.fixture
def settings(dump, tmp_path) -> GradeSettings:
    return GradeSettings(
        (str(dump),), str(tmp_path / "rankings.jsonl"), EndpointSettings("offline"), sandbox="inspect-only"
    )


def comparable(path: str | Path) -> dict:
    """The last line of each group without what may differ between runs: seconds, calls and tokens."""
    lines = {}
    for line in Path(path).read_text().splitlines():
        record = json.loads(line)
        record.pop("checksum")
        for name in ("seconds", "calls", "tokens"):
            record["grader"].pop(name, None)
        lines[record["step"], record["group_id"]] = record
    return lines


def test_every_group_is_graded_or_has_a_reason(settings):
    result = run(settings)
    assert (result.n_groups, result.n_eligible, result.n_graded, result.n_ungraded) == (4, 3, 3, 0)
    assert result.skipped == {"all_pass": 1}
    rankings = latest_rankings(read_rankings(settings.output))
    assert {ranking.status for ranking in rankings.values()} == {"graded", "skipped"}


def test_every_passing_attempt_is_ranked_and_nothing_else(settings):
    run(settings)
    passing = {
        record["trajectory_id"]
        for record in demo_records()
        if record["resolved"] and "52" not in record["trajectory_id"].rsplit("-", 2)[-2]
    }
    ranked = {
        candidate.trajectory_id
        for ranking in read_rankings(settings.output)
        for candidate in ranking.candidates
    }
    assert ranked == passing


def test_grading_twice_says_the_same(settings, tmp_path):
    run(settings)
    run(replace(settings, output=str(tmp_path / "again.jsonl")))
    assert comparable(settings.output) == comparable(tmp_path / "again.jsonl")


def test_a_finished_run_is_not_graded_again(settings):
    run(settings)
    before = Path(settings.output).read_bytes()
    result = run(settings)
    assert (result.n_resumed, result.n_graded) == (3, 3)
    assert Path(settings.output).read_bytes() == before


def test_a_changed_group_is_graded_again_and_the_last_line_wins(settings, dump):
    run(settings)
    records = demo_records()
    changed = next(record for record in records if record["resolved"])
    changed["model_patch"] += "\n"
    dump.write_text("".join(json.dumps(record) + "\n" for record in records))
    before = len(Path(settings.output).read_text().splitlines())
    run(settings)
    lines = [json.loads(line) for line in Path(settings.output).read_text().splitlines()]
    assert [line["group_id"] for line in lines[before:]] == [changed["group_id"]]


def test_other_settings_do_not_go_on_a_ledger(settings):
    run(settings)
    with pytest.raises(UsageError, match="seed was 0, is 1"):
        run(replace(settings, seed=1))
    assert run(replace(settings, seed=1, overwrite=True)).n_resumed == 0


def test_limit_leaves_groups_for_the_next_run(settings):
    first = run(replace(settings, max_groups=1))
    assert (first.n_graded, first.n_not_reached) == (1, 2)
    second = run(settings)
    assert (second.n_graded, second.n_resumed) == (3, 1)


def test_a_parquet_output_has_a_row_for_each_candidate(settings, tmp_path):
    table = tmp_path / "rankings.parquet"
    run(replace(settings, output=str(table)))
    frame = pl.read_parquet(table)
    assert frame.filter(pl.col("status") == "graded")["trajectory_id"].n_unique() == 17
    assert (tmp_path / "rankings.parquet.ledger.jsonl").exists()
    assert run(replace(settings, output=str(table))).n_resumed == 3
    (tmp_path / "rankings.parquet.ledger.jsonl").unlink()
    with pytest.raises(OutputError, match="exists already"):
        run(replace(settings, output=str(table)))


def test_a_table_holds_what_its_ledger_does_also_after_a_run_over_fewer_groups(settings, tmp_path):
    table = replace(settings, output=str(tmp_path / "r.parquet"))
    run(table)
    before = list(read_rankings(table.output))
    assert run(replace(table, max_groups=1)).n_graded == 1
    assert list(read_rankings(table.output)) == before


def test_conversations_are_kept_beside_the_ledger(settings):
    run(settings)
    packed = Path(settings.output + ".conversations.jsonl.zst").read_bytes()
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed), read_across_frames=True) as stream:
        records = [json.loads(line) for line in stream.read().decode().splitlines()]
    assert len(records) == 3
    assert records[0]["messages"][0]["role"] == "system"
    assert records[0]["messages"][-1] == {
        "role": "tool",
        "tool_call_id": records[0]["messages"][-1]["tool_call_id"],
        "content": "accepted",
    }


def test_an_endpoint_that_refuses_everybody_stops_the_run(settings):
    nobody = EndpointSettings("m", "http://127.0.0.1:9/v1", max_attempts=1)
    result = run(replace(settings, endpoint=nobody))
    assert result.ungraded == {"endpoint": 3}
    assert "connection failed" in result.ungraded_reasons[0]


def test_groups_that_an_endpoint_failed_are_owed_again(settings, tmp_path):
    nobody = EndpointSettings("offline", "http://127.0.0.1:9/v1", max_attempts=1)
    assert run(replace(settings, endpoint=nobody)).n_ungraded == 3
    result = run(settings)
    assert (result.n_graded, result.n_resumed) == (3, 0)


def test_one_line_of_a_fatal_refusal_is_enough(settings, serve):
    endpoint = serve(*[(401, {"error": {"message": "bad key"}})] * 20)
    with pytest.raises(EndpointError, match="status 401"):
        run(replace(settings, endpoint=EndpointSettings("m", endpoint.base_url), concurrency=1))
    assert len(endpoint.requests) == 1


def test_a_group_that_a_budget_failed_is_tried_again_with_a_larger_one(settings):
    small = run(replace(settings, limits=GroupLimits(max_turns=1)))
    assert small.ungraded == {"limit": 3}
    assert run(settings).n_graded == 3


def test_a_torn_conversation_loses_only_itself(settings):
    run(replace(settings, max_groups=2))
    log = Path(settings.output + ".conversations.jsonl.zst")
    log.write_bytes(log.read_bytes()[:-7])
    run(settings)
    with zstandard.ZstdDecompressor().stream_reader(
        io.BytesIO(log.read_bytes()), read_across_frames=True
    ) as stream:
        groups = [json.loads(line)["group_id"] for line in stream.read().decode().splitlines()]
    assert len(groups) == 2
    run(replace(settings, overwrite=True))
    with zstandard.ZstdDecompressor().stream_reader(
        io.BytesIO(log.read_bytes()), read_across_frames=True
    ) as stream:
        assert len(stream.read().decode().splitlines()) == 3


def test_a_regraded_group_is_not_counted_as_resumed(settings, dump):
    run(settings)
    records = demo_records()
    for record in records:
        record["model_patch"] = (record["model_patch"] or "") + "\n"
    dump.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert run(settings).n_resumed == 0


def test_segments_of_one_trajectory_count_once(dump, settings):
    records = demo_records()
    later = [{**record, "segment": 1} for record in records]
    dump.write_text(
        "".join(json.dumps(record) + "\n" for record in [*({**one, "segment": 0} for one in records), *later])
    )
    assert run(settings).n_trajectories == 28


def test_a_record_that_cannot_be_read_costs_its_group_only_where_bad_ones_are_skipped(dump, settings):
    records = demo_records()
    first = next(record for record in records if record["resolved"])
    first["messages"] = "x"
    dump.write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(InputError, match="messages"):
        run(replace(settings, output=str(dump.parent / "fails.jsonl")))
    result = run(replace(settings, read=ReadOptions(on_bad_record="skip")))
    lines = [json.loads(line) for line in Path(settings.output).read_text().splitlines()]
    bad = {line["group_id"]: line["reason"] for line in lines if line["status"] == "ungraded"}
    assert list(bad) == [first["group_id"]]
    assert bad[first["group_id"]].startswith(f"bad_record: {dump}:1: messages")
    assert result.n_graded == 2


def test_a_second_writer_is_refused(settings):
    from gagar_cli.io.ledger import Ledger

    with Ledger.open(settings.output, config={}), pytest.raises(OutputError, match="locked"):
        run(settings)


def test_a_killed_run_goes_on_to_the_same_rankings(tmp_path):
    """SIGKILL at random moments; the same command until it ends; equal to an undisturbed run, nothing graded twice."""
    groups = [
        {
            **record,
            "group_id": f"{record['group_id']}-{copy}",
            "trajectory_id": f"{record['trajectory_id']}-{copy}",
        }
        for copy in range(4)
        for record in demo_records()
    ]
    dump = tmp_path / "dump.jsonl"
    dump.write_text("".join(json.dumps(record) + "\n" for record in groups))

    calm, killed = tmp_path / "calm.jsonl", tmp_path / "killed.jsonl"
    endpoint = EndpointSettings("offline")
    settings = GradeSettings((str(dump),), str(calm), endpoint, sandbox="inspect-only", concurrency=2)
    run(settings)
    command = [sys.executable, "-m", "gagar_cli", "grade", str(dump), "-o", str(killed), "-q"]
    command += ["--model", "offline", "--concurrency", "2", "--sandbox", "inspect-only"]
    rng = random.Random(7)
    for _ in range(3):
        n_before = killed.read_bytes().count(b"\n") if killed.exists() else 0
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Once it is at work, at any moment of a group or two.
        while process.poll() is None and not (
            killed.exists() and killed.read_bytes().count(b"\n") > n_before
        ):
            time.sleep(0.005)
        time.sleep(rng.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        process.wait()
    result = run(replace(settings, output=str(killed)))
    assert result.n_graded == 12
    assert result.n_resumed > 0

    assert comparable(killed) == comparable(calm)
    keys = [
        (record["step"], record["group_id"]) for record in map(json.loads, killed.read_text().splitlines())
    ]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_waiting_run_at_once_and_resumably(settings, sent, code):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        grade = ["grade", *settings.dumps, "-o", settings.output, "--model", "offline", "--base-url", url]
        process = subprocess.Popen(
            [sys.executable, "-m", "gagar_cli", *grade, "--sandbox", "inspect-only"],
            stderr=subprocess.PIPE,
            text=True,
        )
        with silent.accept()[0]:
            started = time.monotonic()
            process.send_signal(sent)
            _, told = process.communicate(timeout=20)
    assert process.returncode == code
    assert time.monotonic() - started < 5
    assert "the same command goes on" in told
    assert "Traceback" not in told
    assert run(settings).n_graded == 3


def test_attempts_inside_a_record_are_exploded(tmp_path):
    by_group: dict[str, dict] = {}
    for record in demo_records():
        task = {name: record[name] for name in ("instance_id", "repo", "problem_statement")}
        group = by_group.setdefault(record["group_id"], {**task, "attempts": []})
        group["attempts"].append(
            {
                "attempt_id": record["trajectory_id"],
                "model_patch": record["model_patch"],
                "resolved": record["resolved"],
            }
        )
    dump = tmp_path / "tasks.jsonl"
    dump.write_text("".join(json.dumps(record) + "\n" for record in by_group.values()))
    read = ReadOptions(explode="attempts", fields={"trajectory_id": "attempt_id"})
    settings = GradeSettings(
        (str(dump),), str(tmp_path / "r.jsonl"), EndpointSettings("offline"), read, sandbox="inspect-only"
    )
    assert run(settings).n_graded == 3
