import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump, ReadOptions, open_dump

ReadDump = Callable[..., Dump]
GOOD = b'{"group_id": "g", "reward": 1}'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "no records", id="empty"),
        pytest.param(b"\n \n\r\n", "no records", id="blank lines"),
        pytest.param(b'[{"group_id": "g"}]', ":1: expected an object, found an array", id="array"),
        pytest.param(GOOD + b"\nx\n" + GOOD, ":2:1: invalid JSON", id="garbage in the middle"),
        pytest.param(
            GOOD + b'\n{"group_id": "g", "rew', r":2: truncated line \(no newline\)", id="cut last line"
        ),
        pytest.param(b"\xff\xfe{\0", "looks like UTF-16", id="UTF-16"),
        pytest.param(b"\x1f\x8bhello", "gzip", id="gzip garbage"),
        pytest.param(b"PAR1hello", "cannot be read as Parquet", id="parquet garbage"),
        pytest.param(b'{"reward": 1}', ":1: no group_id and no instance_id", id="no group key"),
        pytest.param(GOOD + b'\n{"reward": 1}', ":2: group_id is missing", id="group key missing later"),
        pytest.param(
            b'{"instance_id": "i", "reward": 1}\n' + GOOD,
            ":2: group_id appears first here",
            id="group key later",
        ),
        pytest.param(GOOD * 2, ":1:31: invalid JSON: extra data", id="two objects on a line"),
        pytest.param(os.urandom(5000), "dump", id="random bytes"),
        pytest.param(b"\0" * 5000, "invalid JSON", id="zeros"),
    ],
)
def test_bad_content_is_an_input_error(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "dump.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_dump([str(tmp_path / "dump.jsonl")], ReadOptions())


def test_a_type_that_changes_late_is_found_at_its_line(read_dump: ReadDump) -> None:
    records = [{"group_id": str(n // 8), "reward": 1} for n in range(5001)]
    with pytest.raises(InputError, match=r":5002: reward is \"1\", expected a number"):
        read_dump([*records, {"group_id": "g", "reward": "1"}])


def test_twenty_bad_records_are_listed_and_reading_stops(read_dump: ReadDump) -> None:
    with pytest.raises(InputError) as caught:
        read_dump(["x"] * 100)
    lines = caught.value.message.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "… stopped reading after 20 bad records"


def test_skipped_records_are_counted_and_the_first_twenty_listed(read_dump: ReadDump) -> None:
    dump = read_dump([{"group_id": "g", "reward": 1}, *["x"] * 30, b'{"cut'], on_bad_record="skip")
    assert (dump.report.n_records, dump.report.n_bad_records, len(dump.report.bad_records)) == (1, 31, 20)
    assert ":2:1: invalid JSON" in dump.report.bad_records[0]


def test_a_bad_attempt_is_skipped_alone(read_dump: ReadDump) -> None:
    record = {"instance_id": "i", "runs": [{"reward": 1}, 5, {"reward": "x"}, {"reward": 0}]}
    dump = read_dump([record, {"instance_id": "j", "runs": 7}], explode="runs", on_bad_record="skip")
    assert dump.index["item"].to_list() == [0, 3]
    first, second, third = dump.report.bad_records
    assert first.endswith(":1[1]: runs[1] is 5, expected an object")
    assert ':1[2]: reward is "x"' in second
    assert third.endswith(":2: runs is 7, expected a list of attempts")


def test_only_bad_records_are_no_dump(read_dump: ReadDump) -> None:
    with pytest.raises(InputError, match="no records"):
        read_dump(["x", "y"], on_bad_record="skip")


def test_a_mapped_path_that_no_record_has_is_refused(read_dump: ReadDump) -> None:
    with pytest.raises(InputError, match=r"no record has \"outcome\.score\""):
        read_dump([{"group_id": "g", "reward": 1}], fields={"n_turns": "outcome.score"})


def test_a_line_over_the_limit_is_refused_and_names_the_limit(read_dump: ReadDump) -> None:
    with pytest.raises(InputError, match=r":1: line longer than 1 MiB"):
        read_dump([{"group_id": "g", "reward": 1, "x": "y" * 2**20}], max_record_bytes=2**20)


def test_hostile_ids_are_escaped_in_messages(read_dump: ReadDump) -> None:
    record = {"group_id": "g", "trajectory_id": "a\x1b[31m\nb" * 100, "reward": 1}
    with pytest.raises(InputError) as caught:
        read_dump([record, record])
    assert "\x1b" not in caught.value.message
    assert "\n" not in caught.value.message


SCALAR = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.lists(st.integers(), max_size=2)
)
NAMES = (
    "group_id",
    "trajectory_id",
    "reward",
    "resolved",
    "step",
    "segment",
    "infra_failure",
    "messages",
    "model_patch",
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.lists(st.dictionaries(st.sampled_from(NAMES), SCALAR), min_size=1, max_size=4))
def test_no_values_bring_down_the_reader(tmp_path: Path, records: list[dict[str, object]]) -> None:
    (tmp_path / "dump.jsonl").write_text("\n".join(json.dumps(record) for record in records))
    for policy in ("fail", "skip"):
        with (
            suppress(InputError),
            open_dump([str(tmp_path / "dump.jsonl")], ReadOptions(on_bad_record=policy)) as dump,
        ):
            assert not dump.index.filter(~dump.index["invalid"])["reward"].has_nulls()
            dump.read_trajectories(range(dump.index.height))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(
    st.binary(max_size=200),
    st.sampled_from([b"", b"{", b"PAR1", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", GOOD + b"\n"]),
)
def test_no_bytes_bring_down_the_reader(tmp_path: Path, tail: bytes, head: bytes) -> None:
    (tmp_path / "dump.bin").write_bytes(head + tail)
    with suppress(InputError):
        open_dump([str(tmp_path / "dump.bin")], ReadOptions()).close()
