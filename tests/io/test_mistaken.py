"""Files in the wrong place: a record that is no attempt, and a line that is no ranking, are called what they are, once."""

import json
from typing import Any

import polars as pl
import pytest

from gagar_cli.errors import InputError
from gagar_cli.io.dump import open_dump
from gagar_cli.io.following import FollowedDump
from gagar_cli.io.rankings import read_rankings
from gagar_cli.io.read_options import ReadOptions
from gagar_cli.validate import ValidateSettings
from gagar_cli.validate import run as validate

ATTEMPTS = [{"trajectory_id": f"t{n}", "reward": float(n)} for n in range(4)]
GROUPS = [{"group_id": f"g{n}", "attempts": ATTEMPTS} for n in range(25)]
RANKING = {"step": None, "group_id": "g", "status": "skipped", "reason": "all_fail", "candidates": []}
ROW = {"group_id": "g", "trajectory_id": "t", "tier": "T1", "rank": 0}


@pytest.mark.parametrize("own", [{}, {"group_id": None}])
def test_records_that_hold_their_attempts_are_told_once_with_the_flag(
    read_dump: Any, own: dict[str, Any]
) -> None:
    with pytest.raises(InputError) as raised:
        read_dump([group | own for group in GROUPS])
    assert raised.value.message.endswith(
        "dump.jsonl:1: neither reward nor resolved: attempts is a list of 4 attempts, the record a group of them"
    )
    assert raised.value.message.count("\n") == 0
    assert raised.value.hint == "`--explode attempts` makes a row of each attempt"
    assert read_dump(GROUPS, explode="attempts").index.height == 100


def test_validate_tells_groups_of_attempts_as_one_problem(write_dump: Any) -> None:
    result = validate(ValidateSettings((write_dump(GROUPS),)))
    assert result.n_problems == 1
    assert result.hint == "`--explode attempts` makes a row of each attempt"


def test_a_group_among_attempts_is_one_bad_record(read_dump: Any) -> None:
    rows = [{"group_id": "g", **attempt} for attempt in ATTEMPTS]
    dump = read_dump([GROUPS[0], *rows], on_bad_record="skip")
    assert (dump.index.height, dump.report.n_bad_records) == (4, 1)


@pytest.mark.parametrize("value", [[], [1], [{"name": "x"}], "[]", {"reward": 1}, [{"reward": 1}, 5]])
def test_a_list_of_other_things_is_no_group(read_dump: Any, value: object) -> None:
    with pytest.raises(InputError, match=r"neither reward nor resolved$") as raised:
        read_dump([{"group_id": "g", "things": value}])
    assert raised.value.hint == "say where it is with `--field reward=PATH`"


@pytest.mark.parametrize("record", [RANKING, {**RANKING, "status": "graded", "candidates": [ROW]}, ROW])
def test_a_ranking_in_the_place_of_a_dump_is_called_so(read_dump: Any, record: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"dump\.jsonl:1: this is a ranking of `gagar grade`") as raised:
        read_dump([record] * 3)
    assert raised.value.hint == "name the dump first and its rankings after it"


def test_a_table_of_rankings_or_of_groups_is_called_so(tmp_path: Any) -> None:
    """Of a table only the columns of an index are read."""
    pl.DataFrame([{**ROW, "trajectory_id": f"t{n}"} for n in range(3)]).write_parquet(tmp_path / "r.parquet")
    with pytest.raises(InputError, match=r"r\.parquet:1: this is a ranking of `gagar grade`"):
        open_dump([str(tmp_path / "r.parquet")], ReadOptions())
    pl.DataFrame(GROUPS).write_parquet(tmp_path / "g.parquet")
    with pytest.raises(InputError, match=r"g\.parquet:1: .* attempts is a list of 4 attempts") as raised:
        open_dump([str(tmp_path / "g.parquet")], ReadOptions())
    assert raised.value.hint == "`--explode attempts` makes a row of each attempt"


def test_long_lines_of_groups_are_called_so_where_only_their_ends_are_read(write_dump: Any) -> None:
    groups = [{"group_id": "g", "attempts": ATTEMPTS, "log": "x" * 100_000, "repo": "r"}] * 3
    with pytest.raises(InputError, match="attempts is a list of 4 attempts"):
        open_dump([write_dump(groups)], ReadOptions(is_index_only=True))


def test_a_table_of_attempts_in_the_place_of_rankings_is_called_so(tmp_path: Any) -> None:
    pl.DataFrame([{"group_id": "g", **each} for each in ATTEMPTS]).write_parquet(tmp_path / "d.parquet")
    with pytest.raises(InputError, match=r"d\.parquet:1: this is no ranking, an attempt with reward"):
        list(read_rankings(str(tmp_path / "d.parquet")))


def test_a_ranking_is_called_so_where_a_dump_is_followed(write_dump: Any) -> None:
    dump = FollowedDump([write_dump([RANKING])], ReadOptions())
    with pytest.raises(InputError, match="this is a ranking"):
        dump.look(is_last=True)
    dump.close()


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (
            {"trajectory_id": "t", "resolved": True},
            "this is no ranking, an attempt with resolved: candidates",
        ),
        ({"group_id": "g", "reward": 1.0, "passed": True}, "an attempt with reward and passed: candidates"),
        ({"group_id": "g", "trajectory_id": "t"}, "this is no ranking: candidates and status are missing"),
    ],
)
def test_verdicts_and_attempts_in_the_place_of_rankings_are_called_so(
    tmp_path: Any, record: dict[str, Any], what: str
) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps(record) + "\n")
    with pytest.raises(InputError, match=r"labels\.jsonl:1: ") as raised:
        list(read_rankings(str(path)))
    assert what in raised.value.message
    assert raised.value.hint is not None
    assert "--join FILE" in raised.value.hint


def test_a_ranking_without_status_is_one(tmp_path: Any) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(
        json.dumps({"group_id": "g", "candidates": [{"trajectory_id": "t", "tier": "T1", "rank": 0}]})
    )
    [ranking] = read_rankings(str(path))
    assert [one.trajectory_id for one in ranking.candidates] == ["t"]
