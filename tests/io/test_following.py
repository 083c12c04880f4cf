"""A growing dump: what each look finds, and that its groups are those that the whole dump gives."""

import gzip
import json
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest

from gagar_cli.core.conditions import parse_condition
from gagar_cli.core.schema import GroupKey
from gagar_cli.errors import InputError, UsageError
from gagar_cli.grading_plan import plan_groups
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.following import FollowedDump

DEMO = Path(str(files("gagar_cli").joinpath("demo_data/demo-rollouts.jsonl")))


def record(group: str, name: str, **more: object) -> str:
    return json.dumps({"group_id": group, "trajectory_id": name, "resolved": True, **more}) + "\n"


def append(path: Path, *lines: str) -> None:
    with path.open("a") as stream:
        stream.write("".join(lines))


def found(dump: FollowedDump, *, is_last: bool = False) -> list[str]:
    return [event.row.trajectory_id if event.row else event.kind for event in dump.look(is_last=is_last)]


@pytest.fixture
def follow() -> Iterator[Callable[..., FollowedDump]]:
    """Follow paths until the test is over."""
    opened: list[FollowedDump] = []

    def start(*arguments: object) -> FollowedDump:
        opened.append(FollowedDump(*arguments))
        return opened[-1]

    yield start
    for dump in opened:
        dump.close()


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "rollouts.jsonl"


def test_groups_are_those_of_the_whole_dump(follow):
    followed = follow([str(DEMO)], ReadOptions())
    keys = list(dict.fromkeys(event.key for event in followed.look()))
    with open_dump([str(DEMO)], ReadOptions()) as dump:
        plan = plan_groups(dump)
        assert len(keys) == plan.n_groups
        for job in plan.jobs:
            valid = [member for member in followed.members(job.key) if not member.invalid]
            assert followed.read_group(job.key, valid) == job.read(dump)


def test_each_look_finds_what_was_added_and_half_a_line_waits_for_its_end(path, follow):
    dump = follow([str(path)], ReadOptions())
    assert found(dump) == []
    append(path, record("g", "a"), record("g", "b")[:20])
    assert found(dump) == ["a"]
    append(path, record("g", "b")[20:], "\n", record("g", "ü"))
    assert found(dump) == ["b", "ü"]
    assert found(dump) == []
    group = dump.read_group(GroupKey(None, "g"), dump.members(GroupKey(None, "g")))
    assert [trajectory.trajectory_id for trajectory in group.trajectories] == ["a", "b", "ü"]
    assert group.trajectories[2].where.endswith(":4")


def test_a_last_line_without_a_newline_counts_at_the_end(path, follow):
    append(path, record("g", "a"), record("g", "b").rstrip("\n"))
    dump = follow([str(path)], ReadOptions())
    assert found(dump) == ["a"]
    assert found(dump, is_last=True) == ["b"]


def test_shards_that_appear_in_a_folder_are_taken_in_whatever_their_form(tmp_path, follow):
    folder = tmp_path / "shards"
    folder.mkdir()
    dump = follow([str(folder)], ReadOptions())
    append(folder / "1.jsonl", record("g", "a"))
    assert found(dump) == ["a"]
    (folder / "2.jsonl.gz").write_bytes(gzip.compress(record("g", "b").encode()))
    pl.DataFrame({"group_id": ["g"], "trajectory_id": ["c"], "resolved": [True]}).write_parquet(
        folder / "3.parquet"
    )
    append(folder / ".hidden.jsonl", record("g", "x"))
    append(folder / "1.jsonl", record("g", "d"))
    assert found(dump) == ["d"]
    assert found(dump) == ["b", "c"]
    assert not dump.is_ended
    (folder / "_SUCCESS").touch()
    assert found(dump) == []
    assert dump.is_ended
    group = dump.read_group(GroupKey(None, "g"), dump.members(GroupKey(None, "g")))
    assert [trajectory.trajectory_id for trajectory in group.trajectories] == ["a", "d", "b", "c"]


def test_a_compressed_shard_is_read_once_its_writer_is_done(tmp_path, follow):
    packed = gzip.compress((record("g", "a") * 1 + record("g", "b")).encode())
    shard = tmp_path / "s.jsonl.gz"
    shard.write_bytes(packed[:-9])
    dump = follow([str(tmp_path)], ReadOptions())
    assert [found(dump) for _ in range(3)] == [[], [], []]
    shard.write_bytes(packed)
    assert [found(dump) for _ in range(2)] == [[], ["a", "b"]]
    assert found(dump) == []


def test_a_shard_that_stays_torn_is_told_at_the_end(tmp_path, follow):
    (tmp_path / "s.jsonl.gz").write_bytes(gzip.compress(record("g", "a").encode())[:-9])
    dump = follow([str(tmp_path)], ReadOptions())
    with pytest.raises(InputError, match="truncated gzip stream"):
        dump.look(is_last=True)


def test_marks_end_groups_and_the_dump_and_are_no_records(path, follow):
    append(
        path,
        record("g", "a", step=3),
        '{"end_of_group": true, "group_id": "g", "step": 3}\n',
        '{"end_of_dump": true}\n',
    )
    dump = follow([str(path)], ReadOptions())
    events = dump.look()
    assert [(event.kind, event.key) for event in events] == [
        ("record", GroupKey(3, "g")),
        ("end_of_group", GroupKey(3, "g")),
    ]
    assert dump.is_ended
    with open_dump([str(path)], ReadOptions()) as whole:
        assert whole.index.height == 1


@pytest.mark.parametrize("change", ["shorter", "another"])
def test_a_file_that_was_cut_or_replaced_is_refused(path, tmp_path, change, follow):
    append(path, record("g", "a"), record("g", "b"))
    dump = follow([str(path)], ReadOptions())
    dump.look()
    if change == "shorter":
        path.write_text(record("g", "a"))
    else:
        other = tmp_path / "other"
        other.write_text(record("g", "a") * 9)
        other.replace(path)
    with pytest.raises(InputError, match="was replaced or cut while it was followed"):
        dump.look()


def test_a_file_that_was_cut_and_grew_beyond_its_old_end_is_refused(path, follow):
    append(path, record("g", "a"), record("g", "b"))
    dump = follow([str(path)], ReadOptions())
    dump.look()
    path.write_text(record("h", "c", n_turns=3) + record("h", "d", n_turns=3) + record("h", "e"))
    with pytest.raises(InputError, match="was replaced or cut while it was followed"):
        dump.look()


def test_a_record_that_is_another_one_when_its_group_is_read_is_refused(path, follow):
    append(path, record("g", "a"), record("g", "b"))
    dump = follow([str(path)], ReadOptions())
    dump.look()
    path.write_text(record("g", "a") + record("h", "b"))
    key = GroupKey(None, "g")
    with pytest.raises(InputError, match="was replaced or cut while it was followed"):
        dump.read_group(key, dump.members(key))


def test_a_path_that_is_not_there_yet_may_become_a_folder_of_shards(tmp_path, follow):
    folder = tmp_path / "rollouts"
    dump = follow([str(folder)], ReadOptions())
    assert found(dump) == []
    folder.mkdir()
    assert found(dump) == []
    (folder / "1.jsonl").write_text(record("g", "a"))
    (folder / "_SUCCESS").touch()
    assert found(dump) == ["a"]
    assert dump.is_ended


def test_a_compressed_file_that_is_not_there_yet_is_waited_for(tmp_path, follow):
    late = tmp_path / "rollouts.jsonl.gz"
    dump = follow([str(late)], ReadOptions())
    assert found(dump) == []
    late.write_bytes(gzip.compress(record("g", "a").encode()))
    assert found(dump) == []
    assert found(dump) == ["a"]


def test_a_group_is_read_with_one_pass_over_each_shard(tmp_path, follow, monkeypatch):
    """Single records of a Parquet shard would each decode their whole row group."""
    frame = pl.DataFrame(
        {
            "group_id": ["g"] * 4,
            "trajectory_id": list("abcd"),
            "resolved": [True] * 4,
            "model_patch": ["p", "q", "r", "s"],
        }
    )
    frame.write_parquet(tmp_path / "1.parquet")
    dump = follow([str(tmp_path)], ReadOptions())
    dump.look()
    dump.look()
    key = GroupKey(None, "g")
    members = dump.members(key)
    reads = []
    tail = members[0].rows[0].tail
    read = tail.read
    monkeypatch.setattr(tail, "read", lambda places: reads.append(len(places)) or read(places))
    group = dump.read_group(key, list(reversed(members)))
    assert reads == [4]
    assert [each.model_patch for each in group.trajectories] == ["s", "r", "q", "p"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{nonsense\n", "invalid JSON"),
        (record("g", "a"), 'trajectory "a" occurs twice in its group: see .*:1'),
        ('{"group_id": "g", "trajectory_id": "b"}\n', "neither reward nor resolved"),
        (record("g", "a", segment=1, resolved=False), "disagrees"),
        ('{"trajectory_id": "b", "resolved": true}\n', "group_id is missing"),
        ('{"end_of_group": true}\n', "group_id is missing"),
    ],
)
def test_a_bad_record_stops_with_its_place_or_is_counted(path, line, message, follow):
    append(path, record("g", "a"), line, record("g", "z"))
    with pytest.raises(InputError, match=rf"rollouts\.jsonl:2:.*{message}"):
        follow([str(path)], ReadOptions()).look()
    lenient = follow([str(path)], ReadOptions(on_bad_record="skip"))
    assert found(lenient) == ["a", "z"]
    assert lenient.n_bad_records == 1


def test_passes_are_judged_as_in_a_whole_dump(path, follow):
    lines = [
        {"trajectory_id": "r", "reward": 1.0},
        {"trajectory_id": "n", "reward": None},
        {"trajectory_id": "i", "reward": 1.0, "infra_failure": True},
        {"trajectory_id": "l", "reward": 0.4},
        {"trajectory_id": "x", "reward": float("nan")},
    ]
    append(path, *(json.dumps({"group_id": "g", **line}) + "\n" for line in lines))
    options = ReadOptions(pass_threshold=0.5)
    dump = follow([str(path)], options)
    dump.look()
    judged = {each.trajectory_id: (each.passed, each.invalid) for each in dump.members(GroupKey(None, "g"))}
    with open_dump([str(path)], options) as whole:
        rows = whole.index.select("trajectory_id", "passed", "invalid").iter_rows()
        assert judged == {name: (passed, invalid) for name, passed, invalid in rows}


def test_flags_that_are_numbers_are_judged_as_in_a_whole_dump(path, follow):
    lines = [
        {"trajectory_id": "p", "resolved": 1},
        {"trajectory_id": "f", "resolved": 0.0, "infra_failure": 0},
        {"trajectory_id": "m", "resolved": 1.0, "mask_sample": 1},
        {"trajectory_id": "t", "resolved": True, "is_truncated": 1},
    ]
    append(path, *(json.dumps({"group_id": "g", **line}) + "\n" for line in lines))
    condition = parse_condition("is_truncated", "--eligible")
    dump = follow([str(path)], ReadOptions(extras=("is_truncated",)), condition)
    dump.look()
    members = dump.members(GroupKey(None, "g"))
    judged = {each.trajectory_id: (each.passed, each.invalid) for each in members}
    assert judged == {"p": (True, False), "f": (False, False), "m": (False, True), "t": (True, False)}
    assert [each.trajectory_id for each in members if each.is_eligible] == ["t"]
    with open_dump([str(path)], ReadOptions()) as whole:
        rows = whole.index.select("trajectory_id", "passed", "invalid").iter_rows()
        assert judged == {name: (passed, invalid) for name, passed, invalid in rows}


def test_a_condition_is_read_with_each_record(path, follow):
    append(path, record("g", "a", kind="code"), record("g", "b", kind="chat"), record("g", "c"))
    condition = parse_condition('kind == "code"', "--eligible")
    dump = follow([str(path)], ReadOptions(extras=("kind",)), condition)
    dump.look()
    assert [each.is_eligible for each in dump.members(GroupKey(None, "g"))] == [True, False, False]
    assert dump.missing_columns == ()


def test_what_cannot_be_followed_is_told(tmp_path, follow):
    with pytest.raises(UsageError, match="a dump is files, folders, or `-` once"):
        follow(["-", "-"], ReadOptions())
    with pytest.raises(UsageError, match="--join - is not for --follow"):
        follow([str(tmp_path)], ReadOptions(joins=("-",)))
    for options in ({}, {"joins": (str(tmp_path / "no" / "preds.json"),)}):
        paths = [str(tmp_path)] if options else [str(tmp_path / "no" / "file.jsonl")]
        with pytest.raises(InputError, match="no such file or directory"):
            follow(paths, ReadOptions(**options))


def test_attempts_inside_a_record_are_exploded(path, follow):
    append(
        path,
        '{"group_id": "g", "tries": [{"trajectory_id": "a", "reward": 1}, {"trajectory_id": "b", "reward": 0}]}\n',
    )
    dump = follow([str(path)], ReadOptions(explode="tries"))
    assert found(dump) == ["a", "b"]
    group = dump.read_group(GroupKey(None, "g"), dump.members(GroupKey(None, "g")))
    assert [(each.trajectory_id, each.passed) for each in group.trajectories] == [("a", True), ("b", False)]
