import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gagar_cli.core.conditions import parse_condition
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from gagar_cli.io.eligibility import rows_that_meet

ReadDump = Callable[..., Dump]


def attempt(trajectory_id: str, **more: object) -> dict[str, object]:
    return {"group_id": "g", "trajectory_id": trajectory_id, "resolved": True, **more}


ROWS = [
    attempt("a", kind="code", size=3, ok=True, meta={"level": 1}),
    attempt("b", kind=None, size=2.5, ok=None, meta={"level": None}),
    attempt("c", ok=False, meta={}),
]
NAMES = ("kind", "size", "ok", "meta.level", "nowhere")


def extras(dump: Dump) -> dict[str, list[Any]]:
    return {name: dump.index[f"extra:{name}"].to_list() for name in NAMES}


EXPECTED = {
    "kind": ["code", None, None],
    "size": [3.0, 2.5, None],
    "ok": [True, None, False],
    "meta.level": [1.0, None, None],
    "nowhere": [None] * 3,
}


def test_extra_columns_stand_beside_the_index(read_dump: ReadDump) -> None:
    dump = read_dump(ROWS, extras=NAMES)
    assert extras(dump) == EXPECTED
    assert "nowhere" in dump.report.missing_columns
    assert "kind" not in dump.report.missing_columns


@pytest.mark.parametrize("is_nested", [True, False], ids=["record-by-record", "whole-columns"])
def test_extra_columns_of_parquet_are_the_same(tmp_path: Path, *, is_nested: bool) -> None:
    table = pl.DataFrame(ROWS, schema_overrides={"size": pl.Float32}, infer_schema_length=None)
    if not is_nested:
        table = table.drop("meta").with_columns(pl.Series("meta.level", [1, None, None]))
    table.write_parquet(tmp_path / "dump.parquet")
    with open_dump([str(tmp_path / "dump.parquet")], ReadOptions(extras=NAMES)) as dump:
        assert extras(dump) == EXPECTED


def test_no_extra_column_is_read_unless_asked_for(read_dump: ReadDump) -> None:
    assert not [name for name in read_dump(ROWS).index.columns if name.startswith("extra:")]


def test_canonical_names_follow_the_mapping_and_the_other_names(read_dump: ReadDump) -> None:
    dump = read_dump(
        [{"group_id": "g", "passed": True, "out": {"r": 0.5}}],
        extras=("reward", "resolved"),
        fields={"reward": "out.r"},
    )
    assert dump.index["extra:reward"].to_list() == [0.5]
    assert dump.index["extra:resolved"].to_list() == [True]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["x", 3], "dump.jsonl:2: kind is 3, expected text, as in the records before"),
        ([True, 1], "dump.jsonl:2: kind is 1, expected true or false, as in the records before"),
        ([["x"]], "dump.jsonl:1: kind is "),
        ([{"a": 1}], "dump.jsonl:1: kind is "),
    ],
)
def test_column_of_several_kinds_is_refused(read_dump: ReadDump, values: list[object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_dump([attempt(str(n), kind=value) for n, value in enumerate(values)], extras=("kind",))
    assert message in caught.value.message


def test_skipped_records_leave_no_hole(read_dump: ReadDump) -> None:
    rows = [attempt("a", kind="x"), attempt("b", kind=1), attempt("a", kind="copy"), attempt("c", kind="z")]
    dump = read_dump(rows, extras=("kind",), on_bad_record="skip")
    assert dump.index["extra:kind"].to_list() == ["x", "z"]
    assert dump.index["trajectory_id"].to_list() == ["a", "c"]


def test_exploded_attempts_have_their_own_and_their_parents_columns(read_dump: ReadDump) -> None:
    record = {
        "group_id": "g",
        "kind": "code",
        "tries": [{"resolved": True, "size": 1}, {"resolved": False, "kind": "own"}],
    }
    dump = read_dump([record], explode="tries", extras=("kind", "size"))
    assert dump.index["extra:kind"].to_list() == ["code", "own"]
    assert dump.index["extra:size"].to_list() == [1.0, None]


def test_many_records_are_packed_in_order(read_dump: ReadDump) -> None:
    dump = read_dump(
        [attempt(str(n), kind=None if n < 9000 else n) for n in range(9001)],
        extras=("kind",),
        max_group_size=10_000,
    )
    assert dump.index["extra:kind"].to_list() == [*[None] * 9000, 9000.0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('kind == "code"', [True, False, False]),
        ('kind != "code"', [False, True, True]),
        ('not kind == "code"', [False, True, True]),
        ("kind is None", [False, True, True]),
        ('kind in ["code", None]', [True, True, True]),
        ("size < 3", [False, True, False]),
        ("not size < 3", [True, False, True]),
        ("2 < size <= 3", [True, True, False]),
        ("ok", [True, False, False]),
        ("ok == false or size == 3", [True, False, True]),
        ("nowhere == 'x'", [False] * 3),
        ("nowhere is null", [True] * 3),
        ("nowhere", [False] * 3),
        ("kind in []", [False] * 3),
    ],
)
def test_conditions_hold_for_rows(read_dump: ReadDump, text: str, expected: list[bool]) -> None:
    dump = read_dump(ROWS, extras=NAMES)
    assert rows_that_meet(parse_condition(text, "--eligible"), dump.index, "--eligible").to_list() == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind == 3", "--eligible compares kind, which holds text, with 3.0"),
        ('size in ["x"]', "--eligible compares size, which holds numbers, with 'x'"),
        ("kind", "--eligible compares kind, which holds text, with true or false"),
    ],
)
def test_comparing_what_cannot_be_compared_is_refused(read_dump: ReadDump, text: str, message: str) -> None:
    dump = read_dump(ROWS, extras=NAMES)
    with pytest.raises(UsageError) as caught:
        rows_that_meet(parse_condition(text, "--eligible"), dump.index, "--eligible")
    assert caught.value.message == message


def test_columns_of_a_native_row_are_found_by_their_own_names(tmp_path: Path) -> None:
    rows = [
        {
            "input": "q",
            "output": str(n),
            "score": 1.0,
            "step": 1,
            "size": n,
            "meta": {"kind": "code"},
            "passed": False,
        }
        | {"resolved": 1, "n_turns": 7}
        for n in range(2)
    ]
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = ("size", "raw.size", "meta.kind", "passed", "raw.passed", "n_turns", "nowhere")
    with open_dump([str(tmp_path / "1.jsonl")], ReadOptions(extras=names)) as dump:
        assert dump.forms[0][0] == "verl"
        index = dump.index
        assert {name: index[f"extra:{name}"].to_list() for name in names} == {
            "size": [0.0, 1.0],
            "raw.size": [0.0, 1.0],
            "meta.kind": ["code", "code"],
            # The other name of a verdict, which would be read as one.
            "passed": [None, None],
            "raw.passed": [False, False],
            "n_turns": [7.0, 7.0],
            "nowhere": [None, None],
        }
        assert index["passed"].to_list() == [True, True]
        assert {"passed", "nowhere"} <= set(dump.report.missing_columns)
