import polars as pl
import pytest

from gagar_cli.advantage_changes import Change, MovedAdvantage, changes_of, read_advantages, sum_changes
from gagar_cli.core.schema import GroupKey
from gagar_cli.errors import InputError, UsageError

FRAME = pl.DataFrame(
    {
        "step": [1, 1, 1, 1],
        "group_id": ["g", "g", "g", "h"],
        "trajectory_id": ["a", "b", "c", "d"],
        "advantage": [0.5, 0.1, -0.6, None],
        "advantage_base": [0.3, 0.3, -0.6, None],
        "capped": [True, True, True, None],
    }
)


@pytest.mark.parametrize("name", ["advantages.parquet", "advantages.jsonl"])
def test_moved_advantage_is_half_of_what_changed(tmp_path, name):
    path = tmp_path / name
    FRAME.write_parquet(path) if name.endswith("parquet") else FRAME.write_ndjson(path)
    moved = sum_changes(read_advantages(str(path)))
    assert moved == MovedAdvantage(4, 2, pytest.approx(0.2), pytest.approx(0.6), 1)


def test_changes_are_those_of_the_groups_that_are_asked_for():
    assert changes_of(FRAME, [GroupKey(1, "h")]) == {(GroupKey(1, "h"), "d"): Change(None, None)}
    assert changes_of(FRAME, [GroupKey(2, "g")]) == {}
    assert changes_of(FRAME.drop("trajectory_id"), [GroupKey(1, "g")]) == {}


def test_a_ranking_without_a_step_is_met_where_only_one_step_has_its_group():
    key = GroupKey(None, "g")
    assert changes_of(FRAME, [key])[key, "a"] == Change(0.3, 0.5)
    assert changes_of(FRAME.drop("step"), [key])[key, "b"] == Change(0.3, 0.1)
    again = pl.concat([FRAME, FRAME.with_columns(step=pl.lit(2, pl.Int64))])
    assert changes_of(again, [key]) == {}
    assert changes_of(again, [GroupKey(2, "g")])[GroupKey(2, "g"), "a"] == Change(0.3, 0.5)


def test_what_cannot_be_read_is_told(tmp_path):
    with pytest.raises(UsageError, match=r"expected \.parquet"):
        read_advantages(str(tmp_path / "x.csv"))
    (tmp_path / "x.parquet").write_bytes(b"garbage")
    with pytest.raises(InputError, match=r"x\.parquet: cannot be read"):
        read_advantages(str(tmp_path / "x.parquet"))
    pl.DataFrame({"advantage": [1.0]}).write_parquet(tmp_path / "y.parquet")
    with pytest.raises(InputError, match="has no column advantage_base"):
        read_advantages(str(tmp_path / "y.parquet"))
    pl.DataFrame({"advantage": [[1.0]], "advantage_base": [0.0]}).write_parquet(tmp_path / "z.parquet")
    with pytest.raises(InputError, match="advantage holds List"):
        read_advantages(str(tmp_path / "z.parquet"))
