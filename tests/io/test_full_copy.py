"""When a full copy keeps the bytes of a dump, and what becomes of it where that cannot be."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from gagar_cli.errors import InputError, UsageError
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


def rollout(number: int, **more: Any) -> str:
    row = {
        "group_index": number // 2,
        "index": number,
        "prompt": "fix",
        "response": "ok",
        "tokens": [1],
        "reward": number % 2,
    }
    return json.dumps({**row, "status": "completed", "metadata": {"a": [1.50, None]}, **more})


NATIVE = [rollout(0), rollout(1, acc=float("nan")), "", rollout(2, advantage=9, note="}"), rollout(3) + "  "]


@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gzip"])
def test_native_lines_keep_their_text(tmp_path: Path, *, is_packed: bool) -> None:
    dump, output = tmp_path / f"0.jsonl{'.gz' if is_packed else ''}", tmp_path / "out.jsonl"
    content = "\r\n".join(NATIVE).encode()
    dump.write_bytes(gzip.compress(content) if is_packed else content)
    new = added(4)
    assert copy([dump], output, new) == ()
    copied = output.read_text().splitlines()
    for row, (line, before) in enumerate(zip(copied, filter(None, NATIVE), strict=True)):
        tail = f', "advantage": {row / 8}, "tier": "T1"}}'
        assert line.replace('"advantage_input"', '"advantage"').rstrip() == before.rstrip()[:-1] + tail
    assert [json.loads(line).get("advantage_input") for line in copied] == [None, None, 9, None]
    with open_dump([str(output)], ReadOptions()) as again:
        assert again.forms[0][0] == "slime"


def test_skipped_native_lines_are_left_out_of_the_copy(tmp_path: Path) -> None:
    dump, output = tmp_path / "0.jsonl", tmp_path / "out.jsonl"
    dump.write_text("\n".join([NATIVE[0], rollout(1, reward="high"), NATIVE[3]]))
    copy([dump], output, added(2), on_bad_record="skip")
    assert [json.loads(line)["index"] for line in output.read_text().splitlines()] == [0, 2]


@pytest.mark.parametrize("is_longer", [True, False])
def test_a_native_file_that_changed_is_not_copied(tmp_path: Path, *, is_longer: bool) -> None:
    dump, output = tmp_path / "0.jsonl", tmp_path / "out.jsonl"
    dump.write_text("\n".join(NATIVE))
    with open_dump([str(dump)], ReadOptions()) as opened:
        dump.write_text("\n".join([*NATIVE, rollout(4)] if is_longer else NATIVE))
        os.utime(dump, ns=(1, 1))
        with pytest.raises(InputError, match=r"0\.jsonl:\d+: the file changed while it was read"):
            write_full_copy(str(output), opened, [str(dump)], added(4))
    assert not output.exists()


def verdicts(folder: Path) -> str:
    (folder / "report.json").write_text('{"resolved_ids": [], "completed_ids": []}')
    return str(folder / "report.json")


@pytest.mark.parametrize("kind", ["array", "joined", "beside-parquet"])
def test_native_files_that_have_no_line_an_attempt_are_refused(tmp_path: Path, kind: str) -> None:
    dump, output = tmp_path / "1.jsonl", tmp_path / "out.jsonl"
    dumps, options = [dump], {}
    rows = [{"input": "q", "output": str(n), "score": n, "step": 1, "instance_id": "i"} for n in range(2)]
    dump.write_text(json.dumps(rows) if kind == "array" else "".join(json.dumps(row) + "\n" for row in rows))
    if kind == "joined":
        options = {"joins": (verdicts(tmp_path),)}
    if kind == "beside-parquet":
        dumps.append(tmp_path / "b.parquet")
        frame().write_parquet(dumps[1])
    with pytest.raises(UsageError, match=r"--full-copy cannot keep \S+1\.jsonl as it stands") as raised:
        copy(dumps, output, added(2), **options)
    assert "gagar convert" in str(raised.value.hint)
    assert not output.exists()
