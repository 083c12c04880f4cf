"""When a full copy keeps the bytes of a dump, and what becomes of it where that cannot be."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from gagar_cli.errors import InputError
from gagar_cli.io.dump import open_dump
from gagar_cli.io.full_copy import write_full_copy
from gagar_cli.io.parquet_footer import read_footer
from gagar_cli.io.scan import ReadOptions

N_ROWS = 40


def frame(**more: Any) -> pl.DataFrame:
    rows = range(N_ROWS)
    return pl.DataFrame(
        {
            "group_id": [f"g{row // 4}" for row in rows],
            "trajectory_id": [f"t{row}" for row in rows],
            "reward": [float(row % 2) for row in rows],
            "messages": [[{"role": "user", "content": "x" * row}] for row in rows],
            **more,
        }
    )


def added(n_rows: int = N_ROWS) -> pl.DataFrame:
    return pl.DataFrame({"advantage": [row / 8 for row in range(n_rows)], "tier": ["T1"] * n_rows})


def copy(dumps: list[Path], output: Path, new: pl.DataFrame, **options: Any) -> tuple[str, ...]:
    paths = [str(each) for each in dumps]
    with open_dump(paths, ReadOptions(**options)) as dump:
        return write_full_copy(str(output), dump, paths, new)


def test_one_parquet_file_keeps_its_bytes(tmp_path: Path) -> None:
    dump, output = tmp_path / "dump.parquet", tmp_path / "out.parquet"
    frame(advantage=[9.0] * N_ROWS, tier=[1] * N_ROWS).write_parquet(dump, row_group_size=7)
    assert copy([dump], output, added()) == ("tier",)
    with dump.open("rb") as stream:
        _, footer_start = read_footer(stream)
    assert output.read_bytes()[:footer_start] == dump.read_bytes()[:footer_start]
    found = pl.read_parquet(output)
    assert found.drop("advantage", "tier", "advantage_input").equals(frame())
    assert found["advantage_input"].to_list() == [9.0] * N_ROWS
    assert found.select("advantage", "tier").equals(added())


def test_several_parquet_files_are_written_again(tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    shards = [tmp_path / f"{name}.parquet" for name in "ab"]
    for number, shard in enumerate(shards):
        frame()[number * 20 : number * 20 + 20].write_parquet(shard)
    copy(shards, output, added())
    assert pl.read_parquet(output).equals(frame().hstack(added()))


@pytest.mark.parametrize("name", ["damaged footer", "skipped record", "sorted and replaced"])
def test_what_cannot_be_spliced_is_written_again(tmp_path: Path, name: str) -> None:
    dump, output = tmp_path / "dump.parquet", tmp_path / "out.parquet"
    rewards: list[float | None] = [float(row % 2) for row in range(N_ROWS)]
    expected, options, new = frame(), {}, added()
    if name == "skipped record":
        rewards[5] = float("inf")
        options = {"on_bad_record": "skip"}
        expected, new = frame().filter(pl.int_range(N_ROWS) != 5), added(N_ROWS - 1)
    table = frame(reward=rewards).to_arrow()
    if name == "sorted and replaced":
        table = table.append_column("tier", [["old"] * N_ROWS])
    pq.write_table(table, dump, sorting_columns=[pq.SortingColumn(0)])
    if name == "damaged footer":
        # A field that is written in the long form means the same and is not canonical.
        text = dump.read_bytes()
        start = len(text) - 8 - int.from_bytes(text[-8:-4], "little")
        footer = b"\x05\x02" + text[start + 1 : -8]
        dump.write_bytes(text[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
        assert pq.read_table(dump).num_rows == N_ROWS
    copy([dump], output, new, **options)
    assert pl.read_parquet(output).equals(expected.hstack(new))


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_json_lines_keep_their_text_whatever_they_are_written_to(tmp_path: Path, suffix: str) -> None:
    dump, output, plain = tmp_path / "dump.jsonl", tmp_path / f"out{suffix}", tmp_path / "plain.jsonl"
    lines = [json.dumps(row).replace('"reward": ', '"cost":1.50,"reward":') for row in frame().to_dicts()]
    dump.write_text("\n\n".join(lines) + "\r\n")
    copy([dump], output, added())
    with open_dump((str(output),), ReadOptions()) as opened:
        plain.write_bytes(b"\n".join(opened.iter_texts()) + b"\n")
    ends = [f', "advantage": {row / 8}, "tier": "T1"}}' for row in range(N_ROWS)]
    assert plain.read_text().splitlines() == [line[:-1] + end for line, end in zip(lines, ends, strict=True)]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_a_copy_needs_no_pyarrow(tmp_path: Path, suffix: str) -> None:
    dump, output = str(tmp_path / f"dump{suffix}"), str(tmp_path / f"out{suffix}")
    long = frame(text=["x" * 9000] * N_ROWS)
    if suffix == ".parquet":
        pq.write_table(long.to_arrow(), dump)
    else:
        long.write_ndjson(dump)
    script = (
        "import sys, polars as pl\n"
        "from gagar_cli.io.dump import *\n"
        "from gagar_cli.io.full_copy import write_full_copy\n"
        f"dump = open_dump([{dump!r}], ReadOptions(is_index_only=True))\n"
        f"added = pl.DataFrame({{'advantage': [0.5] * {N_ROWS}}})\n"
        f"write_full_copy({output!r}, dump, [{dump!r}], added)\n"
        "print('pyarrow' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


@pytest.mark.parametrize(
    "broken", [b'"tier": [1]}{"b": 2', b'"tier": [1 2]', b'"tier": ' + b"[" * 9999 + b"]" * 9999]
)
def test_a_line_that_is_broken_beside_a_replaced_column_is_refused(tmp_path: Path, broken: bytes) -> None:
    """The scan for the index does not look there."""
    dump, output = tmp_path / "dump.jsonl", tmp_path / "out.jsonl"
    lines = [
        b'{"group_id": "g", "trajectory_id": "t%d", "messages": ["%s"], "reward": 1.0}' % (row, b"x" * 9000)
        for row in range(4)
    ]
    lines[2] = lines[2].replace(b'"messages"', broken + b', "messages"')
    dump.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(InputError, match=r"dump\.jsonl:3: cannot be copied with other members"):
        copy([dump], output, added(4), is_index_only=True)
    assert not output.exists()


def test_a_copy_of_a_copy_keeps_its_size(tmp_path: Path) -> None:
    dump, names = tmp_path / "dump.jsonl", [tmp_path / f"copy{number}.jsonl" for number in range(4)]
    frame(advantage=[9.0] * N_ROWS, text=["y" * 9000] * N_ROWS).write_ndjson(dump)
    for source, output in zip([dump, *names], names, strict=False):
        copy([source], output, added(), is_index_only=True)
    assert names[1].read_bytes() == names[2].read_bytes() == names[3].read_bytes()
    assert pl.read_ndjson(names[3])["advantage_input"].to_list() == [9.0] * N_ROWS
