"""Full copies of several Parquet files as one."""

from pathlib import Path

import polars as pl
import pytest

from gagar_cli.errors import InputError
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.full_copy import write_full_copy

FIRST = {"group_id": ["a", "a"], "trajectory_id": ["t1", "t2"], "note": ["x", "y"], "reward": [1.0, 0.0]}
SECOND = {"note": ["z"], "reward": [0.5], "trajectory_id": ["t3"], "group_id": ["b"]}


def copied(folder: Path, *files: dict[str, list[object]]) -> pl.DataFrame:
    paths = []
    for number, columns in enumerate(files):
        paths.append(str(folder / f"{number}.parquet"))
        pl.DataFrame(columns).write_parquet(paths[-1])
    output = str(folder / "copy.parquet")
    with open_dump(paths, ReadOptions()) as dump:
        added = pl.DataFrame({"advantage": [float(row) for row in range(dump.n_rows)]})
        write_full_copy(output, dump, paths, added)
    return pl.read_parquet(output)


def test_columns_in_another_order_are_those_of_their_name(tmp_path: Path) -> None:
    expected = pl.DataFrame({name: [*FIRST[name], *SECOND[name]] for name in FIRST})
    found = copied(tmp_path, FIRST, SECOND)  # type: ignore[arg-type]
    assert found.equals(expected.with_columns(advantage=pl.Series([0.0, 1.0, 2.0])))


@pytest.mark.parametrize(
    "second",
    [
        {**SECOND, "more": [1]},
        {name: SECOND[name] for name in SECOND if name != "note"},
        {**SECOND, "note": [1]},
    ],
    ids=["one more", "one less", "another type"],
)
def test_other_columns_are_refused(tmp_path: Path, second: dict[str, list[object]]) -> None:
    with pytest.raises(InputError, match=r"1\.parquet: columns differ from those of .*0\.parquet"):
        copied(tmp_path, FIRST, second)  # type: ignore[arg-type]
    assert not (tmp_path / "copy.parquet").exists()
