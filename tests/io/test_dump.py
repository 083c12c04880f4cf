import gzip
import io
import json
import math
import resource
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
import zstandard

from gagar_cli.core.schema import Message
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.dump import Dump, ReadOptions, open_dump

ReadDump = Callable[..., Dump]
WriteDump = Callable[..., str]


def attempt(trajectory_id: str = "t", group_id: str = "g", **fields: object) -> dict[str, object]:
    return {"group_id": group_id, "trajectory_id": trajectory_id, "reward": 1.0, **fields}


def test_the_index_has_one_typed_row_a_record(read_dump: ReadDump) -> None:
    dump = read_dump([attempt("a", step=3), attempt("b", "h", reward=0), attempt("c", step=3)])
    assert dump.index.schema == {
        "source": pl.UInt32, "line": pl.Int64, "item": pl.Int32, "offset": pl.Int64, "length": pl.Int64,
        "group": pl.UInt32, "step": pl.Int64, "group_id": pl.String, "trajectory_id": pl.String,
        "segment": pl.Int32, "primary_row": pl.UInt32, "reward": pl.Float64, "passed": pl.Boolean,
        "invalid": pl.Boolean, "invalid_reason": pl.String, "n_turns": pl.Int64, "n_output_tokens": pl.Int64,
        "advantage": pl.Float64,
    }  # fmt: skip
    assert dump.index["group"].to_list() == [0, 1, 0]
    assert dump.index["group_id"].to_list() == ["g", "h", "g"]
    assert dump.index["passed"].to_list() == [True, False, True]
    assert dump.where(2) == f"{dump.sources[0]}:3"


@pytest.mark.parametrize(
    ("fields", "passed", "reason"),
    [
        pytest.param({"resolved": True}, True, None, id="resolved"),
        pytest.param({"resolved": False, "reward": 1.0}, False, None, id="resolved goes before the reward"),
        pytest.param({"resolved": None}, False, "not_evaluated", id="not evaluated"),
        pytest.param({}, False, "not_evaluated", id="missing where others have it"),
        pytest.param({"resolved": True, "infra_failure": True}, False, "infra_failure", id="infrastructure"),
        pytest.param({"resolved": True, "mask_sample": True}, False, "mask_sample", id="masked"),
        pytest.param({"resolved": True, "reward": None}, False, "no_reward", id="null reward"),
        pytest.param({"resolved": True, "reward": math.nan}, False, "no_reward", id="NaN reward"),
    ],
)
def test_passed_and_invalid_follow_the_verdict(
    read_dump: ReadDump, fields: dict[str, object], passed: bool, reason: str | None
) -> None:
    dump = read_dump([attempt("other", resolved=True), attempt("t", **fields)])
    row = dump.index.row(1, named=True)
    assert (row["passed"], row["invalid_reason"], row["invalid"]) == (passed, reason, reason is not None)
    assert (row["reward"] is None) == row["invalid"]


@pytest.mark.parametrize(
    ("record", "options"),
    [
        ({"runs": [{"reward": math.nan}]}, {"explode": "runs"}),
        ({"runs": [{"out": {"r": math.nan}}]}, {"explode": "runs", "fields": {"reward": "out.r"}}),
        ({"group_id": "g", "out": {"r": math.nan}}, {"fields": {"reward": "out.r"}}),
    ],
)
def test_nan_is_no_reward_wherever_the_reward_is(
    read_dump: ReadDump, record: dict[str, object], options: dict[str, object]
) -> None:
    dump = read_dump([record], **options)
    assert dump.index["invalid_reason"].to_list() == ["no_reward"]
    assert len(list(dump.iter_records())) == 1


@pytest.mark.parametrize(
    "record",
    [{"group_id": "g", "reward": 1, "logprob": math.nan}, {"group_id": "g", "runs": [{"x": math.nan}]}],
)
def test_nan_elsewhere_is_refused(read_dump: ReadDump, record: dict[str, object]) -> None:
    with pytest.raises(InputError, match="is NaN, expected a finite number"):
        read_dump([record])


def test_windows_line_ends_are_read(read_dump: ReadDump) -> None:
    dump = read_dump([json.dumps(attempt(str(row), model_patch="p")) + "\r" for row in range(3)])
    assert dump.read_trajectories([2])[0][1].model_patch == "p"


def test_a_dump_without_rewards_takes_them_from_resolved(read_dump: ReadDump) -> None:
    records = [
        {"group_id": "g", "trajectory_id": str(value), "resolved": value} for value in (True, False, None)
    ]
    assert read_dump(records).index["reward"].to_list() == [1.0, 0.0, None]


def test_the_threshold_decides_where_nothing_is_resolved(read_dump: ReadDump) -> None:
    dump = read_dump([attempt(str(reward), reward=reward) for reward in (0.4, 0.5, 1)], pass_threshold=0.5)
    assert dump.index["passed"].to_list() == [False, True, True]


def test_rewards_that_contradict_resolved_are_counted(read_dump: ReadDump) -> None:
    dump = read_dump([attempt("a", resolved=False), attempt("b", resolved=True), attempt("c", resolved=None)])
    assert dump.report.n_disagree == 1


@pytest.mark.parametrize(
    ("record", "options", "group_id", "source"),
    [
        ({"group_id": "g", "instance_id": "i", "x": "y"}, {}, "g", "field:group_id"),
        ({"instance_id": "i", "x": "y"}, {"group_by": "x"}, "y", "field:x"),
        ({"instance_id": "i", "x": "y"}, {}, "i", "field:instance_id"),
        ({"x": {"uid": 4}}, {"fields": {"group_id": "x.uid"}}, "4", "field:x.uid"),
    ],
)
def test_the_group_key_is_the_first_that_exists(
    read_dump: ReadDump, record: dict[str, object], options: dict[str, object], group_id: str, source: str
) -> None:
    dump = read_dump([{"reward": 1, **record}], **options)
    assert dump.index["group_id"].to_list() == [group_id]
    assert dump.report.group_id_source == source


def test_an_exploded_record_is_a_group_and_its_attempts_are_rows(read_dump: ReadDump) -> None:
    record = {"repo": "r", "runs": [{"reward": 1, "model_patch": "p"}, {"reward": 0, "repo": "own"}]}
    dump = read_dump([record, {"runs": []}, record], explode="runs")
    assert dump.index["item"].to_list() == [0, 1, 0, 1]
    assert dump.index["group"].to_list() == [0, 0, 1, 1]
    assert dump.report.group_id_source == "record"
    assert dump.where(3) == f"{dump.sources[0]}:3[1]"
    (task, trajectory), (own, _) = dump.read_trajectories([0, 1])
    assert (task.repo, trajectory.model_patch, own.repo) == ("r", "p", "own")
    assert list(dump.iter_records())[1] == {"repo": "own", "reward": 0}


def test_a_made_trajectory_id_is_stable_and_told(read_dump: ReadDump) -> None:
    records = [{"group_id": "g", "reward": 1}, {"group_id": "g", "reward": 0}]
    first, second = read_dump(records), read_dump(records)
    assert first.index["trajectory_id"].to_list() == second.index["trajectory_id"].to_list()
    assert first.index["trajectory_id"].n_unique() == 2
    assert "2 records have no trajectory_id" in first.report.notes[0]


def test_heavy_columns_come_in_the_order_asked_for(read_dump: ReadDump) -> None:
    dump = read_dump([attempt(str(n), model_patch=f"p{n}", reward=n % 2) for n in range(5)])
    read = dump.read_trajectories([3, 0, 4, 3])
    assert [trajectory.model_patch for _, trajectory in read] == ["p3", "p0", "p4", "p3"]
    assert [trajectory.passed for _, trajectory in read] == [True, False, False, True]
    assert read[0][1].where == dump.where(3)


def test_segments_are_one_trajectory(read_dump: ReadDump) -> None:
    def part(segment: int, text: str) -> dict[str, object]:
        return attempt(segment=segment, messages=[{"role": "assistant", "content": text}])

    dump = read_dump([part(1, "b"), attempt("other"), part(0, "a"), part(2, "c")])
    assert dump.index["primary_row"].to_list() == [0, 1, 0, 0]
    ((_, trajectory),) = dump.read_trajectories([0])
    assert trajectory.messages == (
        Message("assistant", "a"),
        Message("assistant", "b"),
        Message("assistant", "c"),
    )


def test_segments_that_disagree_are_refused(read_dump: ReadDump) -> None:
    with pytest.raises(InputError, match=r":2: a segment of trajectory \"t\" disagrees in passed: see .*:1"):
        read_dump([attempt(segment=0, reward=1), attempt(segment=1, reward=0)])


def test_a_trajectory_that_occurs_twice_is_refused_with_both_places(write_dump: WriteDump) -> None:
    first, second = write_dump([attempt("a"), attempt("b")], "a.jsonl"), write_dump([attempt("b")], "b.jsonl")
    with pytest.raises(
        InputError, match=r"b\.jsonl:1: trajectory \"b\" occurs twice in its group: see .*a\.jsonl:2"
    ):
        open_dump([first, second], ReadOptions())
    with open_dump([first, second], ReadOptions(on_bad_record="skip")) as dump:
        assert (dump.index.height, dump.report.n_bad_records) == (2, 1)


def test_the_same_id_in_another_group_or_step_is_another_trajectory(read_dump: ReadDump) -> None:
    dump = read_dump([attempt("t"), attempt("t", "h"), attempt("t", step=1)])
    assert dump.index["primary_row"].to_list() == [0, 1, 2]


def test_a_group_over_the_limit_is_refused(read_dump: ReadDump) -> None:
    records = [attempt("x", "small"), *(attempt(str(n)) for n in range(4))]
    with pytest.raises(InputError, match=r":2: group \"g\" has 4 trajectories, expected at most 3"):
        read_dump(records, max_group_size=3)


def test_a_folder_reads_as_the_files_in_it(write_dump: WriteDump, tmp_path: Path) -> None:
    write_dump([attempt("a")], "shards/1.jsonl")
    (tmp_path / "shards/2.jsonl.gz").write_bytes(
        gzip.compress(json.dumps(attempt("b", model_patch="p")).encode())
    )
    (tmp_path / "shards/3.jsonl.zst").write_bytes(zstandard.compress(json.dumps(attempt("c")).encode()))
    pl.DataFrame([attempt("d", model_patch="q")]).write_parquet(tmp_path / "shards/4.parquet")
    with open_dump([str(tmp_path / "shards")], ReadOptions()) as dump:
        assert dump.index["trajectory_id"].to_list() == ["a", "b", "c", "d"]
        assert [trajectory.model_patch for _, trajectory in dump.read_trajectories([3, 1])] == ["q", "p"]
        assert dump.where(3).endswith("4.parquet:1")
        assert [record["trajectory_id"] for record in dump.iter_records()] == ["a", "b", "c", "d"]


def test_stdin_is_read_twice_through_its_spool(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(json.dumps(attempt(model_patch="p")).encode())

    monkeypatch.setattr(sys, "stdin", Stdin())
    with open_dump(["-"], ReadOptions()) as dump:
        assert dump.where(0) == "-:1"
        assert dump.read_trajectories([0])[0][1].model_patch == "p"


def test_records_come_back_as_they_were(read_dump: ReadDump) -> None:
    records = [attempt("a", extra={"deep": [1, None, "ü"]}), attempt("b", extra=[], big=2**80)]
    assert list(read_dump(records).iter_records()) == records


def test_lines_come_back_byte_for_byte(read_dump: ReadDump) -> None:
    lines = ['{"group_id":"g",  "reward":1.50, "trajectory_id":"\\u0061"}', '{"group_id":"g","reward":1e0}']
    dump = read_dump(lines)
    assert dump.is_spliceable
    assert [text.decode() for text in dump.iter_texts()] == lines


def test_missing_columns_are_reported_and_null_ones_are_not(read_dump: ReadDump) -> None:
    missing = read_dump([attempt(), attempt("u", messages=None)]).report.missing_columns
    assert "model_patch" in missing
    assert "messages" not in missing


def test_a_byte_order_mark_is_noted(read_dump: ReadDump) -> None:
    dump = read_dump([b"\xef\xbb\xbf" + json.dumps(attempt(model_patch="p")).encode()])
    assert "byte order mark" in dump.report.notes[0]
    assert dump.read_trajectories([0])[0][1].model_patch == "p"


def test_a_file_that_changes_under_an_open_dump_is_told(read_dump: ReadDump) -> None:
    dump = read_dump([attempt("a"), attempt("b")])
    Path(dump.sources[0]).write_text("{}\n")
    with pytest.raises(InputError, match=r"dump\.jsonl: the file changed while it was read"):
        dump.read_trajectories([1])


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_dump_may_have_more_shards_than_files_may_be_open(tmp_path: Path, suffix: str) -> None:
    for number in range(40):
        frame = pl.DataFrame([attempt(str(number), model_patch=f"p{number}")])
        path = tmp_path / f"{number:03}.{suffix}"
        frame.write_parquet(path) if suffix == "parquet" else frame.write_ndjson(path)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    n_open = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (n_open + 20, limits[1]))
    try:
        with open_dump([str(tmp_path)], ReadOptions()) as dump:
            patches = [dump.read_trajectories([row])[0][1].model_patch for row in (39, 0, 17)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert patches == ["p39", "p0", "p17"]


def test_groups_are_read_from_several_threads(read_dump: ReadDump) -> None:
    dump = read_dump([attempt(str(row), model_patch=f"p{row}") for row in range(200)])
    with ThreadPoolExecutor(8) as pool:
        read = pool.map(lambda row: dump.read_trajectories([row])[0][1].model_patch, range(200))
        assert list(read) == [f"p{row}" for row in range(200)]


def test_a_bad_heavy_field_is_told_with_its_place(read_dump: ReadDump) -> None:
    dump = read_dump([attempt("a"), attempt("b", messages=5)])
    with pytest.raises(InputError, match=r"dump\.jsonl:2: messages is 5, expected a list"):
        dump.read_trajectories([1])


def test_an_invalid_trajectory_has_no_number_for_a_reward(read_dump: ReadDump) -> None:
    dump = read_dump([attempt("a"), attempt("b", reward=None)])
    assert math.isnan(dump.read_trajectories([1])[0][1].reward)


@pytest.mark.parametrize("paths", [[], ["-", "-"]])
def test_no_dump_or_stdin_twice_is_a_usage_error(paths: list[str]) -> None:
    with pytest.raises(UsageError):
        open_dump(paths, ReadOptions())


def test_a_skipped_record_makes_no_file_one_without_resolved(write_dump: WriteDump) -> None:
    path = write_dump(
        [
            {"group_id": "g", "trajectory_id": "a", "resolved": 3},
            {"group_id": "g", "trajectory_id": "b", "reward": 1.0},
        ]
    )
    with open_dump([path], ReadOptions(on_bad_record="skip")) as dump:
        assert dump.report.n_bad_records == 1
        assert not any("have no resolved" in note for note in dump.report.notes)


def test_a_file_without_resolved_beside_one_with_it_is_judged_by_its_rewards(write_dump: WriteDump) -> None:
    judged = write_dump([{"group_id": "g", "trajectory_id": n, "resolved": v} for n, v in enumerate([True, None])], "a.jsonl")  # fmt: skip
    paid = write_dump(
        [{"group_id": "h", "trajectory_id": n, "reward": float(n)} for n in range(2)], "b.jsonl"
    )
    with open_dump([judged, paid], ReadOptions()) as dump:
        found = dump.index.select("reward", "passed", "invalid_reason").rows()
        assert found == [
            (1.0, True, None),
            (None, False, "not_evaluated"),
            (0.0, False, None),
            (1.0, True, None),
        ]
        assert any("1 of 2 files have no resolved: their attempts pass by reward" in note and "b.jsonl" in note for note in dump.report.notes)  # fmt: skip
