"""Groups that lie in several files without a step: what may be two training steps is told."""

import json
from pathlib import Path
from typing import Any

import pytest

from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from gagar_cli.io.following import FollowedDump
from gagar_cli.io.reading_notes import once_a_kind
from tests.io.formats.conftest import native as native
from tests.io.test_following_native import verl
from tests.io.test_join_by_id import trees


def shard(number: int, group: str = "g", **more: Any) -> list[dict[str, Any]]:
    return [
        {"group_id": group, "trajectory_id": f"s{number}-t{n}", "reward": float(n < 2), **more}
        for n in range(4)
    ]


def notes(dump: Dump) -> list[str]:
    return [note for note in dump.report.notes if "several files" in note]


def test_a_group_in_several_files_without_a_step_is_told(native: Any, tmp_path: Path) -> None:
    native({"1.jsonl": [*shard(1), *shard(1, "h")], "2.jsonl": shard(2), "3.jsonl": shard(3)}).close()
    dump = open_dump([str(tmp_path)], ReadOptions())
    [note] = notes(dump)
    assert note == (
        "1 group lies in several files, and no record has step: attempts at different training steps may be taken for one "
        f"group (g: {tmp_path}/1.jsonl, {tmp_path}/2.jsonl); map it with `--field step=PATH`"
    )
    dump.close()


def test_all_such_groups_are_counted(native: Any) -> None:
    dump = native({f"{n}.jsonl": [*shard(n, "a"), *shard(n, "b"), *shard(n, f"own{n}")] for n in range(3)})
    [note] = notes(dump)
    assert note.startswith("2 groups lie in several files")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (shard(1, "g"), shard(2, "h")),
        (shard(1, "g", step=1), shard(2, "g", step=2)),
        (shard(1, "g"), shard(2, "g", step=2)),
    ],
    ids=["other groups", "steps", "a step somewhere"],
)
def test_nothing_is_told_where_steps_are_told_apart(native: Any, first: Any, second: Any) -> None:
    assert notes(native({"1.jsonl": first, "2.jsonl": second})) == []


def test_a_step_that_is_mapped_tells_them_apart(native: Any) -> None:
    files = {f"{n}.jsonl": shard(n, "g", iteration=n) for n in (1, 2)}
    dump = native(files, fields={"step": "iteration"})
    assert notes(dump) == []
    assert dump.index["group"].n_unique() == 2


def test_an_instance_comes_back_in_every_run(native: Any) -> None:
    assert notes(native(trees(), "out")) == []
    rows = [{"instance_id": "i", "trajectory_id": f"t{n}", "reward": 1.0} for n in range(2)]
    assert notes(native({f"r{n}.jsonl": [rows[n]] for n in range(2)})) == []


def without_step(step: int) -> list[dict[str, Any]]:
    rows = [verl(step, "a", n, float(n)) for n in range(2)]
    return [{name: value for name, value in row.items() if name != "step"} for row in rows]


@pytest.mark.parametrize("options", [{}, {"format": "verl"}])
def test_verls_files_are_named_after_the_step(native: Any, options: dict[str, Any]) -> None:
    dump = native({f"{n}.jsonl": without_step(n) for n in (9, 10)}, **options)
    assert dump.index["step"].to_list() == [9, 9, 10, 10]
    assert dump.index["group"].n_unique() == 2
    assert notes(dump) == []


def test_the_step_of_a_row_of_verl_goes_before_the_name(native: Any) -> None:
    assert native({"7.jsonl": [verl(3, "a", 0)]}).index["step"].to_list() == [3]


def test_other_names_tell_no_step_of_verl(native: Any) -> None:
    dump = native({f"part-{n}.jsonl": without_step(n) for n in (1, 2)}, format="verl")
    assert dump.index["step"].to_list() == [None] * 4
    assert len(notes(dump)) == 1


def cut(*sizes: int, size: int = 4) -> dict[str, list[dict[str, Any]]]:
    """One step in shards of so many rows, its groups written one after the other."""
    rows = [row | {"trajectory_id": f"t{n}"} for g in range(sum(sizes) // size) for n, row in enumerate(shard(0, f"g{g}")[:size])]  # fmt: skip
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    return {
        f"{number}.jsonl": rows[start : start + n]
        for number, (start, n) in enumerate(zip(starts, sizes, strict=True))
    }


def test_groups_that_the_border_of_shards_cuts_are_of_one_step(native: Any) -> None:
    dump = native(cut(6, 5, 9))
    assert dump.index["group"].n_unique() == 5
    assert notes(dump) == []


def test_a_group_at_a_border_that_is_larger_than_the_others_is_told(native: Any) -> None:
    files = {"1.jsonl": [*shard(1, "h"), *shard(1, "g")], "2.jsonl": [*shard(2, "g"), *shard(2, "i")]}
    assert len(notes(native(files))) == 1


def test_a_group_that_comes_back_further_on_is_told(native: Any) -> None:
    halves = [row[:2] for row in (shard(1, "g"), shard(2, "g"))]
    dump = native({"1.jsonl": [*halves[0], *shard(1, "h")], "2.jsonl": halves[1]})
    assert len(notes(dump)) == 1


def test_many_files_tell_the_same_once(native: Any) -> None:
    rows = {
        f"out/{n}.jsonl": [verl(n, "a", 0, 1.0, acc="high") | {"output": "x"}] * (n % 2 + 1)
        for n in range(30)
    }
    dump = native(rows, "out", on_bad_record="skip")
    unread = [note for note in dump.report.notes if "acc of" in note]
    assert [note.partition("/out/")[2] for note in unread] == [
        '0.jsonl: acc of 1 row is neither true nor false ("high"), and not used: by score (and 14 more notes of this kind)',
        '1.jsonl: acc of 2 rows are neither true nor false ("high"), and not used: by score (and 14 more notes of this kind)',
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a: x", "a: y"], ["a: x", "a: y"]),
        (["3 groups", "4 groups"], ["3 groups", "4 groups"]),
        (["a: x", "a: x"], ["a: x"]),
        (
            ["l/2: the same file as d/2, read once", "l/3: the same file as d/3, read once"],
            ["l/2: the same file as d/2, read once (and 1 more note of this kind)"],
        ),
        (
            ["--join: r/1.json is used for nothing: why", "--join: 2 records", "--join: r/2.json is used for nothing: why"],
            ["--join: r/1.json is used for nothing: why (and 1 more note of this kind)", "--join: 2 records"],
        ),
        (["a: sum of x, y; 0.5", "b: sum of x, z; 0.7"], ["a: sum of x, y; 0.5", "b: sum of x, z; 0.7"]),
    ],
)  # fmt: skip
def test_notes_of_one_kind_are_one(given: list[str], expected: list[str]) -> None:
    assert once_a_kind(given) == expected


def test_a_dump_that_grows_tells_the_same_once(tmp_path: Path) -> None:
    (tmp_path / "0.jsonl").write_text(json.dumps(verl(0, "a", 0, 1.0)) + "\n")
    dump = FollowedDump([str(tmp_path)], ReadOptions())
    dump.look()
    for n in range(1, 5):
        (tmp_path / f"{n}.jsonl").write_text('{"what": "else"}\n')
    dump.look(is_last=True)
    notes = [note for note in dump.notes if "no native format" in note]
    dump.close()
    assert notes == [f"{tmp_path}/1.jsonl: of no native format and not read (and 3 more notes of this kind)"]
