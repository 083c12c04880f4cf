import fcntl
import json
import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gagar_cli.errors import InputError, OutputError, UsageError
from gagar_cli.io.ledger import Ledger, Place, read_settings
from gagar_cli.io.ledger_lines import checksum

CONFIG = {"model": "m", "temperature": 0.2}
RECORDS = [{"group_id": "g1", "x": [1.5, None]}, {"group_id": "g2", "text": "ü\n\u2028"}, {"group_id": "g3"}]


def write_ledger(path: Path, records: list[dict[str, object]] = RECORDS) -> bytes:
    path.unlink(missing_ok=True)
    with Ledger.open(str(path), config=CONFIG) as ledger:
        for record in records:
            ledger.append(record)
    return path.read_bytes()


def reopened(path: Path, **options: bool) -> Ledger:
    with Ledger.open(str(path), config=CONFIG, **options) as ledger:
        return ledger


def test_records_are_there_when_it_is_opened_again(tmp_path: Path) -> None:
    write_ledger(tmp_path / "l.jsonl")
    assert reopened(tmp_path / "l.jsonl").records == RECORDS


def test_each_line_carries_the_checksum_of_its_content(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in write_ledger(tmp_path / "l.jsonl").splitlines()]
    assert [line.pop("checksum") for line in lines] == [checksum(record) for record in RECORDS]
    assert checksum({"b": 1, "a": 2}) == checksum({"a": 2, "b": 1, "checksum": "other"})


def test_a_cut_at_any_offset_of_the_last_record_loses_only_it(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    whole = write_ledger(path)
    good = whole[: whole.rindex(b"\n", 0, -1) + 1]
    for length in range(len(good), len(whole)):
        path.write_bytes(whole[:length])
        ledger = reopened(path)
        assert ledger.records == RECORDS[:2]
        assert path.read_bytes() == good
        assert bool(ledger.notes) == (length > len(good))


def test_a_record_after_a_torn_one_stands_on_its_own_line(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_bytes(write_ledger(path)[:-5])
    with Ledger.open(str(path), config=CONFIG) as ledger:
        ledger.append({"group_id": "g4"})
    assert reopened(path).records == [*RECORDS[:2], {"group_id": "g4"}]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(st.data())
def test_a_flipped_byte_never_passes_unseen(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "l.jsonl"
    whole = write_ledger(path)
    at = data.draw(st.integers(0, len(whole) - 2))
    damaged = bytearray(whole)
    damaged[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(damaged)
    with suppress(InputError):
        assert reopened(path).records == RECORDS
    assert path.read_bytes() == damaged


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param(b"garbage", ":2:1: invalid JSON", id="garbage"),
        pytest.param(b"", ":2:1: invalid JSON", id="blank"),
        pytest.param(b'{"group_id": "g"}', ":2: checksum is missing", id="no checksum"),
        pytest.param(b'{"group_id": "g", "checksum": "0000"}', ':2: checksum is "0000"', id="wrong checksum"),
        pytest.param(b"[]", ":2: expected an object", id="array"),
    ],
)
def test_a_bad_line_inside_stops_and_nothing_is_overwritten(
    tmp_path: Path, line: bytes, message: str
) -> None:
    path = tmp_path / "l.jsonl"
    first, _, last = write_ledger(path).splitlines()
    damaged = first + b"\n" + line + b"\n" + last + b'\n{"torn'
    path.write_bytes(damaged)
    with pytest.raises(InputError, match=message):
        reopened(path)
    assert path.read_bytes() == damaged


def test_a_second_writer_is_refused_at_once_and_may_come_later(tmp_path: Path) -> None:
    path = str(tmp_path / "l.jsonl")
    with Ledger.open(path, config=CONFIG), pytest.raises(OutputError, match="locked by another run"):
        Ledger.open(path, config=CONFIG)
    Ledger.open(path, config=CONFIG).close()


def test_a_lock_of_another_program_counts(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    with path.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(OutputError, match="locked by another run"):
            Ledger.open(str(path), config=CONFIG)


def test_other_settings_are_refused_and_both_values_shown(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    write_ledger(path)
    with pytest.raises(UsageError) as caught:
        Ledger.open(str(path), config={"model": "m", "temperature": 0.7, "limits": {"turns": 3}})
    assert 'limits was null, is {"turns": 3}; temperature was 0.2, is 0.7' in caught.value.message
    assert "--overwrite" in str(caught.value.hint)


def test_nested_settings_differ_by_their_path(tmp_path: Path) -> None:
    path = str(tmp_path / "l.jsonl")
    with Ledger.open(path, config={"limits": {"turns": 3, "seconds": 5}}) as ledger:
        ledger.append({})
    with pytest.raises(UsageError, match=r"settings: limits\.turns was 3, is 4$"):
        Ledger.open(path, config={"limits": {"turns": 4, "seconds": 5}})


def test_an_empty_ledger_takes_new_settings(tmp_path: Path) -> None:
    path = str(tmp_path / "l.jsonl")
    Ledger.open(path, config={"a": 1}).close()
    Ledger.open(path, config={"a": 2}).close()
    assert json.loads(Path(f"{path}.run.json").read_text()) == {"schema_version": 1, "a": 2}


def test_overwrite_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    write_ledger(path)
    with Ledger.open(str(path), config={"a": 2}, overwrite=True) as ledger:
        assert ledger.records == []
    assert path.read_bytes() == b""


def test_damaged_settings_are_told(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    write_ledger(path)
    Path(f"{path}.run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json: not JSON"):
        reopened(path)


def test_missing_settings_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    write_ledger(path)
    Path(f"{path}.run.json").unlink()
    assert "settings of earlier records are unknown" in reopened(path).notes[0]


@pytest.mark.parametrize("make", ["symlink", "folder", "pipe", "no folder"])
def test_what_is_no_regular_file_is_refused(tmp_path: Path, make: str) -> None:
    path = tmp_path / "l.jsonl"
    if make == "symlink":
        (tmp_path / "real").write_text("precious")
        path.symlink_to(tmp_path / "real")
    elif make == "folder":
        path.mkdir()
    elif make == "pipe":
        os.mkfifo(path)
    else:
        path = tmp_path / "absent" / "l.jsonl"
    with pytest.raises(OutputError):
        reopened(path)
    assert make != "symlink" or (tmp_path / "real").read_text() == "precious"


FULL_DISK = """
import resource, signal, sys
from gagar_cli.errors import OutputError
from gagar_cli.io.ledger import Ledger
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
n_done = 0
with Ledger.open(sys.argv[1], config={}) as ledger:
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
    try:
        while True:
            ledger.append({"n": n_done, "text": "x" * 300})
            n_done += 1
    except OutputError as error:
        print(n_done, error.message)
    try:
        ledger.append({})
    except OutputError as error:
        print(error.message)
"""


def test_a_full_disk_loses_no_acknowledged_record_and_leaves_no_torn_one(tmp_path: Path) -> None:
    """A limit on the file's size stands for the disk: the last write is short, as on a disk that fills up."""
    path = tmp_path / "l.jsonl"
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True
    )
    first, second = run.stdout.splitlines()
    n_done = int(first.split()[0])
    assert "cannot be appended to" in first
    assert "closed" in second
    assert path.read_bytes().endswith(b"\n")
    with Ledger.open(str(path), config={}) as ledger:
        assert [record["n"] for record in ledger.records] == list(range(n_done))
        assert not ledger.notes
    assert n_done > 10
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY


def test_how_a_dump_was_read_is_kept_and_not_compared(tmp_path: Path) -> None:
    path = str(tmp_path / "l.jsonl")
    for reading in ({"pass_threshold": 1.0}, {"pass_threshold": 0.5}, {"pass_threshold": 0.5}):
        with Ledger.open(path, config=CONFIG, reading=reading) as ledger:
            ledger.append(RECORDS[0])
        assert read_settings(path) == {**CONFIG, "read": reading}
    with pytest.raises(UsageError, match=r'model was "m", is "n"$'):
        Ledger.open(path, config={**CONFIG, "model": "n"}, reading={"pass_threshold": 0.5})


def test_records_that_are_taken_are_not_held_and_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    write_ledger(path)
    taken: list[tuple[dict[str, object], Place]] = []
    with Ledger.open(str(path), config=CONFIG, take=lambda *each: taken.append(each)) as ledger:
        more = {"group_id": "g4", "text": "é"}
        places = [*(place for _, place in taken), *ledger.append(more, RECORDS[0])]
        assert [record for record, _ in taken] == RECORDS
        assert ledger.records == []
        assert [ledger.read(place) for place in places] == [*RECORDS, more, RECORDS[0]]
    with pytest.raises(OutputError, match="the ledger is closed"):
        ledger.read(places[0])


def test_a_record_that_changed_since_it_was_taken_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    with Ledger.open(str(path), config=CONFIG) as ledger:
        (place,) = ledger.append({"group_id": "g1"})
        path.write_bytes(path.read_bytes().replace(b"g1", b"g2"))
        with pytest.raises(InputError, match="does not fit the line"):
            ledger.read(place)
