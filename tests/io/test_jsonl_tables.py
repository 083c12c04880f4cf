"""Skimmed lines as tables, against the same lines one by one."""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gagar_cli.errors import InputError
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.jsonl_skim import LinePlace
from gagar_cli.io.jsonl_tables import Skimmed, SkimmedTable, tabled

NAMES = ("group_id", "reward")


def lines(records: Sequence[Any], first: int = 1) -> list[Skimmed]:
    return [(LinePlace(number, 10 * number, 9), record) for number, record in enumerate(records, start=first)]


def test_neighbours_of_the_same_keys_are_one_table() -> None:
    given = lines([{"group_id": f"g{row}", "reward": float(row), "more": [row]} for row in range(100)])
    (piece,) = tabled(given, NAMES)
    assert isinstance(piece, SkimmedTable)
    assert piece.table.to_dict(as_series=False) == {
        "group_id": [f"g{row}" for row in range(100)],
        "reward": [float(row) for row in range(100)],
    }
    assert piece.spans.row(99) == (1000, 9)
    assert piece.lines == given


@pytest.mark.parametrize(
    "odd",
    [
        InputError("broken"),
        {"group_id": "g"},
        {"group_id": "g", "reward": 1.0, "end_of_group": True},
    ],
    ids=["broken", "other keys", "a mark"],
)
def test_an_odd_line_ends_a_table_and_keeps_its_place(odd: object) -> None:
    plain: list[Any] = [{"group_id": "g", "reward": 1.0}] * 70
    given = lines([*plain, odd, *plain])
    pieces = list(tabled(given, NAMES))
    assert [isinstance(piece, SkimmedTable) for piece in pieces] == [True, False, True]
    assert [pieces[0].lines, [pieces[1]], pieces[2].lines] == [given[:70], given[70:71], given[71:]]  # type: ignore[union-attr]


def test_a_gap_in_the_line_numbers_ends_a_table() -> None:
    plain: list[Any] = [{"group_id": "g", "reward": 1.0}] * 70
    pieces = list(tabled(lines(plain) + lines(plain, first=72), NAMES))
    assert [len(piece.lines) for piece in pieces if isinstance(piece, SkimmedTable)] == [70, 70]


@pytest.mark.parametrize(
    "rewards",
    [[1.0, True], [1.0, "high"], [1.0, {"a": 1}], ["\ud800", "x"]],
    ids=["true among numbers", "text among numbers", "an object", "half a pair"],
)
def test_values_of_several_kinds_stay_single_lines(rewards: list[Any]) -> None:
    given = lines([{"group_id": "g", "reward": reward} for reward in rewards * 50])
    assert list(tabled(given, NAMES)) == given


def test_whole_and_other_numbers_share_a_column() -> None:
    given = lines([{"group_id": "g", "reward": reward} for reward in [1, 0.5, None] * 40])
    (piece,) = tabled(given, NAMES)
    assert isinstance(piece, SkimmedTable)
    assert piece.table["reward"].to_list() == [1.0, 0.5, None] * 40


@pytest.mark.parametrize("seed", range(4))
def test_long_lines_have_one_index_however_they_are_read(write_dump: Callable[..., str], seed: int) -> None:
    draw = random.Random(seed)
    odd = [
        {"reward": 2},
        {"segment": 1},
        {"step": None},
        {"resolved": True},
        {"n_turns": 4},
        {},
        {"reward": None},
    ]
    records = []
    for row in range(400):
        record = {"group_id": f"g{row // 8}", "trajectory_id": f"t{row}", "messages": "x" * 9000}
        record |= {"step": row // 64, "reward": float(row % 2)}
        records.append(record | (draw.choice(odd) if draw.random() < 0.01 else {}))
    path = write_dump(records)
    indexes = []
    for is_index_only in (True, False):
        with open_dump([path], ReadOptions(is_index_only=is_index_only)) as dump:
            indexes.append((dump.index, dump.report))
    assert indexes[0][0].equals(indexes[1][0])
    assert indexes[0][1] == indexes[1][1]


def test_a_bad_value_deep_in_long_lines_is_told_with_its_line(write_dump: Callable[..., str]) -> None:
    records: list[dict[str, Any]] = [
        {"group_id": "g", "trajectory_id": f"t{row}", "messages": "x" * 9000, "reward": 1.0}
        for row in range(300)
    ]
    records[211]["reward"] = "one"
    path = write_dump([json.dumps(record) for record in records])
    with pytest.raises(InputError, match=r'dump\.jsonl:212: reward is "one", expected a number'):
        open_dump([path], ReadOptions(is_index_only=True))


def test_text_that_is_no_column_has_no_table() -> None:
    given = lines([{"other": 1}] * 70)
    assert list(tabled(given, NAMES)) == given
