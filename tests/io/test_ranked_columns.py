"""Plain tables of rankings, laid over a dump at once, against the same candidates one by one."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.errors import InputError
from gagar_cli.io.dump import open_dump
from gagar_cli.io.ranked_columns import lay_plain, match, read_plain_rankings
from gagar_cli.io.ranked_index import RankedIndex, lay_rankings
from gagar_cli.io.rankings import read_rankings
from gagar_cli.io.row_ids import Hashes
from gagar_cli.io.scan import ReadOptions

CANDIDATES: dict[str, list[Any]] = {
    "group_id": ["g", "g", "h"],
    "trajectory_id": ["a", "b", "a"],
    "tier": ["T1", "T3", "T2"],
    "rank": [1, 1, 2],
}


def table(**more: Any) -> pl.DataFrame:
    return pl.DataFrame({**CANDIDATES, **more})


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "dump.parquet"
    frame = pl.DataFrame(
        {
            "step": [1, 1, 1, 1, 1, 2],
            "group_id": ["g", "g", "g", "h", "h", "i"],
            "trajectory_id": ["a", "b", "c", "a", "b", "a"],
            "resolved": [True, True, False, True, False, True],
        }
    )
    frame.write_parquet(path)
    return path


def lay(dump: Path, rankings: Path, *, is_plain: bool) -> RankedIndex:
    plain = read_plain_rankings(str(rankings)) if is_plain else None
    with open_dump((str(dump),), ReadOptions()) as opened:
        return lay_rankings(opened, read_rankings(str(rankings)), "r.parquet", plain=plain)


def as_lists(ranked: RankedIndex) -> list[Any]:
    rows = ranked.trajectories
    return [
        rows.tier.tolist(),
        rows.rank.tolist(),
        rows.is_violation.tolist(),
        ranked.verdicts.is_ranked.tolist(),
        ranked.verdicts.status.tolist(),
        ranked.verdicts.reason.tolist(),
        ranked.n_unknown_groups,
        ranked.n_superseded,
        [None if score != score else score for score in ranked.weighted_score.tolist()],
    ]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"step": [1, 1, 1]},
        {"status": ["graded", None, "graded"], "weighted_score": [4.5, None, 1.0]},
        {"group_id": ["g", "g", "unknown"]},
        {"rationale": ["x", None, "y"], "flag_regression": pl.Series([None] * 3, dtype=pl.Boolean)},
        {"findings": ["[]", None, "[]"], "unproven": pl.Series([[], None, []], dtype=pl.List(pl.String))},
    ],
    ids=["bare", "steps", "status and score", "unknown group", "empty columns", "empty lists"],
)
def test_plain_tables_are_laid_as_one_by_one(tmp_path: Path, dump: Path, more: dict[str, Any]) -> None:
    rankings = tmp_path / "r.parquet"
    table(**more).write_parquet(rankings)
    plain = read_plain_rankings(str(rankings))
    assert plain is not None
    assert as_lists(lay(dump, rankings, is_plain=True)) == as_lists(lay(dump, rankings, is_plain=False))


def test_the_name_of_a_table_is_no_pattern_and_its_folder_no_column(tmp_path: Path, dump: Path) -> None:
    rankings = tmp_path / "step=7" / "r[12].parquet"
    rankings.parent.mkdir()
    table().write_parquet(rankings)
    table(tier=["T2", "T1", "T1"]).write_parquet(rankings.with_name("r1.parquet"))
    plain = read_plain_rankings(str(rankings))
    assert plain is not None
    assert not plain["has_step"].any()
    assert as_lists(lay(dump, rankings, is_plain=True)) == as_lists(lay(dump, rankings, is_plain=False))


def test_random_tables_are_laid_as_one_by_one(tmp_path: Path) -> None:
    draw = random.Random(4)
    rows = [(group, f"t{n}", draw.random() < 0.6) for group in range(40) for n in range(draw.randrange(1, 9))]
    draw.shuffle(rows)
    passes = [row for row in rows if row[2]]
    draw.shuffle(passes)
    dump, rankings = tmp_path / "dump.parquet", tmp_path / "r.parquet"
    columns = ["group_id", "trajectory_id", "resolved"]
    pl.DataFrame(rows, schema=columns, orient="row").cast({"group_id": pl.String}).write_parquet(dump)
    made = [
        (str(group), name, draw.choice(("T1", "T2", "T3")), draw.randrange(4)) for group, name, _ in passes
    ]
    pl.DataFrame(made, schema=[*columns[:2], "tier", "rank"], orient="row").write_parquet(rankings)
    assert as_lists(lay(dump, rankings, is_plain=True)) == as_lists(lay(dump, rankings, is_plain=False))


@pytest.mark.parametrize(
    "more",
    [
        {"tier": ["T1", "T4", "T2"]},
        {"tier": ["T1", None, "T2"]},
        {"rank": [1, -1, 1]},
        {"rank": [1.0, 1.0, 1.0]},
        {"group_id": ["g", "", "h"]},
        {"trajectory_id": ["a", None, "a"]},
        {"trajectory_id": ["a", "b\0", "a"]},
        {"step": [1, None, 1]},
        {"status": ["graded", "skipped", "graded"]},
        {"weighted_score": [4.5, 6.0, None]},
        {"weighted_score": [4.5, float("nan"), None]},
        {"flag_integrity_violation": [None, True, None]},
        {"score_approach": [None, 3, None]},
        {"grader": [None, "{}", None]},
        {"something_else": [1, 2, 3]},
        {"rationale": [None, 1, None]},
        {"findings": ["[]", "no JSON", None]},
        {"unproven": [[], ["x"], None]},
    ],
)
def test_tables_that_are_not_plain_go_the_slow_way(tmp_path: Path, more: dict[str, Any]) -> None:
    table(**more).write_parquet(tmp_path / "r.parquet")
    assert read_plain_rankings(str(tmp_path / "r.parquet")) is None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"trajectory_id": ["a", "c", "a"]}, 'trajectory "c" did not pass'),
        ({"trajectory_id": ["a", "z", "a"]}, 'trajectory "z" is not in the dump'),
        ({"trajectory_id": ["a", "a", "a"]}, 'names trajectory "a" twice'),
        ({"group_id": ["x", "x", "h"], "trajectory_id": ["a", "a", "a"]}, 'names trajectory "a" twice'),
        ({"group_id": ["x", "y", "z"]}, "none of its 3 groups is in the dump"),
    ],
)
def test_entries_that_cannot_be_ranked_are_refused_in_the_same_words(
    tmp_path: Path, dump: Path, more: dict[str, Any], message: str
) -> None:
    rankings = tmp_path / "r.parquet"
    table(**more).write_parquet(rankings)
    with pytest.raises(InputError, match=message):
        lay(dump, rankings, is_plain=True)


def test_groups_of_several_steps_need_one(dump: Path) -> None:
    plain = pl.DataFrame(
        {**CANDIDATES, "step": pl.Series([None] * 3, dtype=pl.Int64), "weighted_score": [None] * 3}
    )
    with open_dump((str(dump),), ReadOptions()) as opened:
        primary = opened.index.with_row_index("row").with_columns(pl.lit("g").alias("group_id"))
    assert lay_plain(plain, primary) is None


@given(
    others=st.lists(st.tuples(st.integers(0, 2**64 - 1) | st.integers(0, 3), st.integers(0, 1)), max_size=12),
    data=st.data(),
)
def test_hashes_are_matched_as_a_dict_would(others: list[tuple[int, int]], data: st.DataObject) -> None:
    drawn = st.sampled_from(others) if others else st.nothing()
    wanted = data.draw(st.lists(drawn | st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=8))
    places = {pair: place for place, pair in enumerate(others)}
    is_clear = len({key for key, _ in others}) == len(others) and len(set(wanted)) == len(wanted)
    expected = [places[pair] for pair in wanted] if is_clear and places.keys() >= set(wanted) else None
    found = match(hashes(wanted), hashes(others))
    if not is_clear and found is not None:
        # Keys that meet elsewhere, in a part that nothing is looked for in.
        assert [others[place] for place in found] == wanted
    else:
        assert (None if found is None else found.tolist()) == expected


def hashes(pairs: list[tuple[int, int]]) -> Hashes:
    keys, checks = zip(*pairs, strict=True) if pairs else ((), ())
    return Hashes(np.array(keys, dtype=np.uint64), np.array(checks, dtype=np.uint32))


def test_many_hashes_are_matched_part_by_part() -> None:
    keys = np.random.default_rng(3).permutation(np.arange(200_000, dtype=np.uint64) * np.uint64(2**46 + 7))
    checks = (keys >> np.uint64(7)).astype(np.uint32)
    chosen = np.random.default_rng(4).permutation(200_000)[:150_000]
    found = match(Hashes(keys[chosen], checks[chosen]), Hashes(keys, checks))
    assert found is not None
    assert (found == chosen).all()
    checks[chosen[70_000]] += np.uint32(1)
    assert (
        match(Hashes(keys[chosen], (keys[chosen] >> np.uint64(7)).astype(np.uint32)), Hashes(keys, checks))
        is None
    )
