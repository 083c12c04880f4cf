"""Lines taken many at once give the index and the refusals of lines taken one by one."""

import json
import random
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gagar_cli.errors import InputError
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.jsonl import MAX_RECORD_BYTES, Line, parse_line
from gagar_cli.io.jsonl_flat import FlatScan, FlatTable
from gagar_cli.io.records import Fields
from gagar_cli.io.scan import DumpReport, Scan
from gagar_cli.io.sources import JsonlSource
from gagar_cli.io.streams import open_input

N_ROWS = 4000


def rows(n: int = N_ROWS) -> list[str]:
    chance = random.Random(7)
    return [
        json.dumps(
            {
                "group_id": f"täsk-{number // 8}",
                "trajectory_id": f"t{number}",
                "step": number // 1000,
                "reward": chance.choice(
                    [0, 1.0, -0.0, None, chance.random() * 10 ** chance.randint(-20, 14)]
                ),
                "resolved": chance.choice([True, False, None]),
                "mask_sample": number % 97 == 0,
                "n_turns": number % 50,
                "note": chance.choice(['a "quote" \\ and \n', "", None, 3, 1.5]),
            },
            ensure_ascii=False,
        )
        for number in range(n)
    ]


def read(path: Path, flat: tuple[str, ...] | None, **options: object) -> tuple[pl.DataFrame, DumpReport]:
    read_options = ReadOptions(**options)  # type: ignore[arg-type]
    source = JsonlSource(
        str(path),
        open_input(str(path)),
        explode=None,
        max_record_bytes=read_options.max_record_bytes,
        flat=flat,
    )
    return Scan([source], Fields(read_options.fields), read_options).run()


def outcome(path: Path, flat: tuple[str, ...] | None, **options: object) -> object:
    try:
        index, report = read(path, flat, **options)
    except InputError as error:
        return error.message
    return index.to_dict(as_series=False) | {"report": report}


def both(path: Path, text: bytes, **options: object) -> object:
    """What a file comes to, the same both ways."""
    path.write_bytes(text)
    extras = options.get("extras", ())
    fast = outcome(path, extras, **options)  # type: ignore[arg-type]
    assert repr(fast) == repr(outcome(path, None, **options))  # repr: NaN equals NaN
    return fast


def n_in_tables(path: Path) -> int:
    def parse(line: Line) -> dict[str, object] | InputError:
        try:
            return parse_line(line, "d")
        except InputError as error:
            return error

    with path.open("rb") as stream:
        scan = FlatScan(stream, ["group_id", "reward"], parse, max_record_bytes=MAX_RECORD_BYTES)
        return sum(piece.table.height for piece in scan if isinstance(piece, FlatTable))


def test_an_index_is_the_same_in_tables_as_line_by_line(tmp_path):
    path = tmp_path / "d.jsonl"
    assert isinstance(both(path, "\n".join(rows()).encode() + b"\n"), dict)
    assert n_in_tables(path) == N_ROWS - 1


@pytest.mark.parametrize(
    "lines",
    [
        [""] * 3 + rows() + ["", "  "],
        [rows(1)[0]] + [line.replace(": ", ":").replace(", ", ",") for line in rows()[1:]],
        rows()[:2000] + [json.dumps({"reward": 1.0, "group_id": "x", "trajectory_id": f"y{n}"}) for n in range(3000)],
        [line + "\r" for line in rows()],
        [*rows()[:500], '{"end_of_group": true}', *rows()[500:], '{"end_of_dump": true}'],
    ],
    ids=["blank lines", "other spaces", "two layouts", "crlf", "markers"],
)  # fmt: skip
def test_what_a_pattern_does_not_match_is_read_all_the_same(tmp_path, lines):
    found = both(tmp_path / "d.jsonl", "\n".join(lines).encode() + b"\n")
    assert isinstance(found, dict)


@pytest.mark.parametrize(
    "options", [{"group_by": "key"}, {"extras": ("note", "key")}, {"pass_threshold": 0.5}]
)
def test_options_hold_in_tables(tmp_path, options):
    lines = [
        json.dumps(
            {"key": f"k{n // 9}", "trajectory_id": n, "reward": n % 3 / 2, "note": "a\tb" if n % 5 else "c"}
        )
        for n in range(6000)
    ]
    assert isinstance(both(tmp_path / "d.jsonl", "\n".join(lines).encode() + b"\n", **{"group_by": "key"} | options), dict)  # fmt: skip


@pytest.mark.parametrize(
    "bad",
    [
        b'{"group_id": "a", "trajectory_id": "b", "trajectory_id": "c", "reward": 1.0}',
        b'{"group_id": "a", "trajectory_id": "b", "reward": 1e400}',
        b'{"group_id": "a", "trajectory_id": "b", "reward": "1"}',
        b'{"group_id": "a", "trajectory_id": "b", "reward": 01}',
        b'{"group_id": "a", "trajectory_id": "", "reward": 1.0}',
        b'{"group_id": "a", "trajectory_id": "b"}',
        b'{"group_id": "a", "trajectory_id": "b\xff", "reward": 1.0}',
        b'{"group_id": "a", "trajectory_id": "b\\ud800", "reward": 1.0}',
        b'{"group_id": "a", "trajectory_id": "b\x01", "reward": 1.0}',
        b'{"group_id": "a", "trajectory_id": "b", "reward": 1.0} x',
        b'{"group_id": null, "trajectory_id": "b", "reward": 1.0}',
        b'{"group_id": "a", "trajectory_id": "b", "reward": -Infinity}',
        b'{"group_id": "a", "trajectory_id": "t17", "reward": 1.0}',
        b"[1, 2]",
    ],
)
def test_a_bad_line_among_thousands_is_refused_with_its_line(tmp_path, bad):
    good = [b'{"group_id": "a", "trajectory_id": "t%d", "reward": 1.0}' % n for n in range(6000)]
    message = both(
        tmp_path / "d.jsonl", b"\n".join([*good[:4000], bad, *good[4000:]]) + b"\n", max_group_size=9000
    )
    assert isinstance(message, str)
    assert "d.jsonl:4001" in message


def test_a_cut_last_line_and_a_long_one_are_told(tmp_path):
    good = [b'{"group_id": "a", "trajectory_id": "t%d", "reward": 1.0}' % n for n in range(4000)]
    message = both(tmp_path / "d.jsonl", b"\n".join([*good, b'{"group_id": "a", "tr']))
    assert "d.jsonl:4001: truncated line (no newline)" in str(message)
    long = b'{"group_id": "a", "trajectory_id": "%s", "reward": 1.0}' % (b"x" * 3000)
    message = both(tmp_path / "d.jsonl", b"\n".join([*good, long, *good[:1]]) + b"\n", max_record_bytes=2048)
    assert "d.jsonl:4001: line longer than 2048 bytes" in str(message)


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path):
    found = both(tmp_path / "d.jsonl", b"\xef\xbb\xbf" + "\n".join(rows()).encode() + b"\n")
    assert isinstance(found, dict)
    assert found["offset"][0] == 3


def test_records_are_read_back_by_their_place(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text("\n".join(rows()) + "\n")
    with open_dump([str(path)], ReadOptions()) as dump:
        _, trajectory = dump.read_trajectories([3777])[0]
        assert trajectory.trajectory_id == "t3777"
        assert list(dump.iter_texts())[3777].decode() == rows()[3777]


FILLER = [f'{{"group_id": "f{n // 8}", "trajectory_id": "t{n}", "reward": 1.0}}' for n in range(5000)]
PIECES = st.lists(
    st.sampled_from(
        ['{"group_id": ', '"trajectory_id": ', '"reward": ', '"a"', "1.0", "NaN", "null", ", ", "}", '"', "\\", "\n", " "]
    ),
    max_size=8,
)  # fmt: skip


@settings(max_examples=12)
@given(st.lists(PIECES, max_size=4), st.integers(0, 4999), st.integers(0, 60))
def test_any_damage_is_told_alike(tmp_path_factory, pieces, row, column):
    lines = list(FILLER)
    for number, piece in enumerate(pieces):
        place = (row + 997 * number) % 5000
        lines[place] = lines[place][:column] + "".join(piece) + lines[place][column:]
    path = tmp_path_factory.mktemp("flat") / "d.jsonl"
    both(path, "\n".join(lines).encode() + b"\n", on_bad_record="skip")
