"""Attempts that arrived after their group was graded, found when its ranking is laid over the dump."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.ranked_index import RankedIndex, lay_rankings
from gagar_cli.io.rankings import read_rankings, write_rankings_parquet

Record = dict[str, Any]
SEEN = {"c01": "a", "c02": "b", "f01": "x", "f02": "y"}
LATE_1, LATE_2 = (
    "late: 1 trajectory arrived after it was graded",
    "late: 2 trajectories arrived after it was graded",
)


def attempt(trajectory_id: str, resolved: bool | None, group_id: str = "g") -> Record:
    return {"group_id": group_id, "trajectory_id": trajectory_id, "resolved": resolved}


def line(blind_ids: dict[str, str] | None, *, group_id: str = "g", **more: Any) -> Record:
    candidates = [{"trajectory_id": name, "tier": "T1", "rank": 1, "flags": {}} for name in ("a", "b")]
    grader = {} if blind_ids is None else {"blind_ids": blind_ids}
    return {"group_id": group_id, "candidates": candidates, "grader": grader, **more}


AB_XY = [attempt("a", True), attempt("b", True), attempt("x", False), attempt("y", False)]
Lay = Callable[..., RankedIndex]


@pytest.fixture
def lay(tmp_path: Path) -> Lay:
    def laid(dump: list[Record], lines: list[Record], *, as_table: bool = False) -> RankedIndex:
        rollouts, rankings = tmp_path / "dump.jsonl", tmp_path / "rankings.jsonl"
        rollouts.write_text("".join(json.dumps(record) + "\n" for record in dump))
        rankings.write_text("".join(json.dumps(record) + "\n" for record in lines))
        if as_table:
            table = tmp_path / "rankings.parquet"
            write_rankings_parquet(str(table), read_rankings(str(rankings)))
            rankings = table
        with open_dump((str(rollouts),), ReadOptions(is_index_only=True)) as opened:
            return lay_rankings(opened, read_rankings(str(rankings)), "r")

    return laid


@pytest.mark.parametrize(
    ("more", "is_ranked", "reason"),
    [
        pytest.param([], True, None, id="none"),
        pytest.param([attempt("z", False)], False, LATE_1, id="one that failed"),
        pytest.param([attempt("z", True)], True, LATE_1, id="one that passed"),
        pytest.param([attempt("z", False), attempt("w", True)], False, LATE_2, id="both"),
        pytest.param([attempt("z", None)], True, None, id="an invalid one"),
        pytest.param([attempt("z", False, "other")], True, None, id="in another group"),
    ],
)
def test_a_valid_attempt_that_the_grader_did_not_see_puts_the_ranking_out_of_force(
    lay: Lay, more: list[Record], is_ranked: bool, reason: str | None
) -> None:
    """One that passed only where it is a candidate, which is seen later: the group lacks its rank then."""
    verdicts = lay([*AB_XY, *more], [line(SEEN)]).verdicts
    assert (verdicts.is_ranked[0], verdicts.reason[0]) == (is_ranked, reason)
    assert verdicts.status[0] == (None if is_ranked else "ungraded")


def test_an_attempt_in_the_place_of_one_that_is_gone_is_late_too(lay: Lay) -> None:
    assert lay(AB_XY[:-1], [line(SEEN)]).verdicts.is_ranked.tolist() == [True]
    assert lay([*AB_XY[:-1], attempt("z", False)], [line(SEEN)]).verdicts.reason.tolist() == [LATE_1]


def test_a_ranking_that_does_not_tell_what_was_seen_stands(lay: Lay) -> None:
    assert lay([*AB_XY, attempt("z", False)], [line(None)]).verdicts.is_ranked.tolist() == [True]
    assert lay([*AB_XY, attempt("z", False)], [line({})]).verdicts.is_ranked.tolist() == [True]


def test_only_the_line_in_force_counts_and_only_its_own_group(lay: Lay) -> None:
    other = [{**record, "group_id": "h"} for record in AB_XY]
    dump = [*AB_XY, attempt("z", False), *other, attempt("w", False, "h")]
    again = line({**SEEN, "f03": "z"})
    found = lay(dump, [line(SEEN), again, line({**SEEN, "f03": "z"}, group_id="h")]).verdicts
    assert found.reason.tolist() == [None, LATE_1]


def test_a_table_of_rankings_tells_it_too_and_violations_stay(lay: Lay) -> None:
    ranking = line(SEEN)
    ranking["candidates"][1] |= {"tier": None, "rank": None, "flags": {"integrity_violation": True}}
    found = lay([*AB_XY, attempt("z", False)], [ranking], as_table=True)
    assert found.verdicts.reason.tolist() == [LATE_1]
    assert np.flatnonzero(found.trajectories.is_violation).tolist() == [1]
