"""Ids kept in a file change nothing: the same output, summary and errors as with ids in memory."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.errors import GagarError
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from gagar_cli.io.ranked_columns import read_plain_rankings
from gagar_cli.io.ranked_index import lay_rankings
from gagar_cli.io.rankings import read_rankings
from gagar_cli.io.row_ids import Hash, Hashes, hash_texts
from gagar_cli.io.row_table import RowTable
from gagar_cli.redistribute import RedistributeSettings, run

IN_MEMORY, APART = (ReadOptions(is_index_only=True, max_ids_in_memory=limit) for limit in (10**9, 0))
Record = dict[str, Any]


@st.composite
def dumps(draw: st.DrawFn) -> list[Record]:
    """Records of few groups, now and then with steps, segments, ids that repeat, or verdicts that are missing."""
    has_step, has_resolved, has_segments = draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
    ids = st.sampled_from([f"t{n}" for n in range(4)]) if draw(st.integers(0, 4)) == 0 else None
    records = []
    for number in range(draw(st.integers(1, 24))):
        record: Record = {"group_id": draw(st.sampled_from(["a", "b", "long group id é"]))}
        record["trajectory_id"] = draw(ids) if ids is not None else f"trajectory {number}"
        record["reward"] = draw(st.sampled_from([0.0, 1.0, 1.0, 0.5, None]))
        if has_step:
            record["step"] = draw(st.sampled_from([0, 1, None]))
        if has_resolved:
            record["resolved"] = draw(st.sampled_from([True, True, False, None]))
        if has_segments:
            record["segment"] = draw(st.integers(0, 3))
        record |= draw(st.fixed_dictionaries({}, optional={"mask_sample": st.just(True)}))
        record |= {"n_output_tokens": number, "advantage": draw(st.sampled_from([0.25, None]))}
        records.append(record)
    return records


@st.composite
def rankings(draw: st.DrawFn, records: list[Record]) -> list[Record]:
    """Lines for most groups, mostly of the passes."""
    groups: dict[tuple[int | None, str], list[str]] = {}
    for record in records:
        is_pass = record.get("resolved", (record["reward"] or 0) >= 1)
        members = groups.setdefault((record.get("step"), record["group_id"]), [])
        if is_pass and not record.get("mask_sample") and record["trajectory_id"] not in members:
            members.append(record["trajectory_id"])
    lines = []
    for (step, group_id), members in draw(st.permutations(list(groups.items()))):
        chosen = members if draw(st.integers(0, 5)) else [*members[1:], draw(st.sampled_from(["x", "t0"]))]
        tiers = [draw(st.sampled_from(["T1", "T2", "T3"])) for _ in chosen]
        candidates = [
            {"trajectory_id": name, "tier": tier, "rank": draw(st.integers(0, 3))}
            for name, tier in zip(chosen, tiers, strict=True)
        ]
        if candidates:
            shared: Record = {"group_id": group_id} if step is None else {"step": step, "group_id": group_id}
            lines.append({**shared, "candidates": candidates})
    if draw(st.integers(0, 5)) == 0:
        lines.append(
            {"group_id": "elsewhere", "candidates": [{"trajectory_id": "t", "tier": "T1", "rank": 1}]}
        )
    return lines


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Record], list[Record]]:
    records = draw(dumps())
    return records, draw(rankings(records))


def write(folder: Path, records: list[Record], lines: list[Record], kind: str) -> tuple[str, str]:
    dump, ranked = folder / f"dump.{kind}", folder / f"rankings.{kind}"
    if kind == "parquet":
        pl.DataFrame(records, infer_schema_length=None).write_parquet(dump)
        rows = [{**line, **one} for line in lines for one in line["candidates"]]
        schema = {"group_id": pl.String, "trajectory_id": pl.String, "tier": pl.String, "rank": pl.Int64}
        frame = pl.DataFrame(rows, infer_schema_length=None) if rows else pl.DataFrame(schema=schema)
        frame.drop("candidates", strict=False).write_parquet(ranked)
    else:
        for path, written in ((dump, records), (ranked, lines)):
            path.write_text("".join(json.dumps(each) + "\n" for each in written))
    return str(dump), str(ranked)


def outcome(folder: Path, dump: str, ranked: str, read: ReadOptions, **more: Any) -> object:
    output = folder / "out.jsonl"
    output.unlink(missing_ok=True)
    settings = RedistributeSettings(dumps=(dump,), rankings=ranked, output=str(output), read=read, **more)
    try:
        result = run(settings)
    except GagarError as error:
        return (type(error), error.message, error.hint)
    return (result.to_record(), output.read_text())


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@given(case=cases(), is_full=st.booleans(), on_bad_record=st.sampled_from(["fail", "skip"]))
def test_ids_in_a_file_give_what_ids_in_memory_give(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    case: tuple[list[Record], list[Record]],
    is_full: bool,
    on_bad_record: Any,
) -> None:
    folder = tmp_path_factory.mktemp("case")
    dump, ranked = write(folder, *case, kind)
    made = [
        outcome(
            folder, dump, ranked, replace(read, on_bad_record=on_bad_record), full_copy=is_full, check=True
        )
        for read in (IN_MEMORY, APART)
    ]
    assert made[0] == made[1]


def records_of(n_rows: int) -> list[Record]:
    return [
        {
            "step": row // 64,
            "group_id": f"g{row // 8 % 40}",
            "trajectory_id": f"attempt number {row}",
            "reward": float(row % 8 < 5),
            "kind": "code" if row % 3 else "text",
            "penalty": 1 - row % 5 / 10,
        }
        for row in range(n_rows)
    ]


def lines_of(records: list[Record]) -> list[Record]:
    groups: dict[tuple[int, str], list[Record]] = {}
    for record in records:
        if record["reward"] == 1:
            one = {"trajectory_id": record["trajectory_id"], "tier": "T2", "rank": len(groups)}
            groups.setdefault((record["step"], record["group_id"]), []).append(one)
    return [{"step": step, "group_id": name, "candidates": of} for (step, name), of in groups.items()]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"full_copy": True},
        {"eligible": "kind == 'code'", "factor_column": "penalty"},
        {"method": "dr-grpo"},
    ],
    ids=["sidecar", "full copy", "columns", "no factors"],
)
def test_long_dumps_come_out_alike(tmp_path: Path, kind: str, more: Record) -> None:
    records = records_of(5000)
    lines = lines_of(records)
    if "eligible" in more:
        kinds = {record["trajectory_id"]: record["kind"] for record in records}
        for line in lines:
            line["candidates"] = [one for one in line["candidates"] if kinds[one["trajectory_id"]] == "code"]
    dump, ranked = write(tmp_path, records, lines, kind)
    made = [outcome(tmp_path, dump, ranked, read, **more) for read in (IN_MEMORY, APART)]
    assert made[0] == made[1]
    assert isinstance(made[0][1], str)  # type: ignore[index]
    assert made[0][1].count("\n") == 5000  # type: ignore[index]


def bad_key(texts: pl.Series) -> Hashes:
    return Hashes(np.full(len(texts), 7, dtype=np.uint64), hash_texts(texts).check)


def poor_key(texts: pl.Series) -> Hashes:
    return Hashes(hash_texts(texts).key & np.uint64(63), hash_texts(texts).check)


def bad_check(texts: pl.Series) -> Hashes:
    return Hashes(hash_texts(texts).key, np.zeros(len(texts), dtype=np.uint32))


@pytest.mark.parametrize("hash_", [bad_key, poor_key, bad_check, hash_texts])
@pytest.mark.parametrize("n_rows", [1, 8, 400])
@pytest.mark.parametrize("read", [IN_MEMORY, APART], ids=["memory", "apart"])
def test_hashes_that_meet_cost_time_and_change_nothing(
    tmp_path: Path, hash_: Hash, n_rows: int, read: ReadOptions
) -> None:
    records = records_of(n_rows)
    dump, ranked = write(tmp_path, records, lines_of(records), "parquet")
    with open_dump((dump,), read, hash_=hash_) as opened:
        plain = read_plain_rankings(ranked, hash_=hash_)
        assert plain is not None
        found = lay_rankings(opened, read_rankings(ranked), "r", plain=plain, hash_=hash_)
        assert opened.keys()["trajectory_id"].to_list() == [record["trajectory_id"] for record in records]
    with open_dump((dump,), ReadOptions()) as opened:
        expected = lay_rankings(opened, read_rankings(ranked), "r")
    for name in ("tier", "rank", "group", "reward", "is_passed", "is_valid"):
        values = getattr(found.trajectories, name).tolist()
        assert values == getattr(expected.trajectories, name).tolist()


def test_an_unknown_id_whose_key_is_another_ones_is_told(tmp_path: Path) -> None:
    records = records_of(1)
    lines = [
        {**line, "candidates": [{**line["candidates"][0], "trajectory_id": "z"}]}
        for line in lines_of(records)
    ]
    dump, ranked = write(tmp_path, records, lines, "parquet")
    with open_dump((dump,), APART, hash_=bad_key) as opened:
        plain = read_plain_rankings(ranked, hash_=bad_key)
        with pytest.raises(GagarError, match='trajectory "z" is not in the dump'):
            lay_rankings(opened, read_rankings(ranked), "r", plain=plain, hash_=bad_key)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_the_index_of_ids_apart_is_that_of_ids_in_memory(tmp_path: Path, kind: str) -> None:
    dump, _ = write(tmp_path, records_of(3000), [], kind)
    with open_dump((dump,), IN_MEMORY) as whole, open_dump((dump,), APART) as apart:
        assert apart.rows_apart is not None
        expected = whole.index.drop("trajectory_id")
        assert apart.index.cast(expected.schema).equals(expected)  # type: ignore[arg-type]
        assert apart.keys(100, 2100).equals(whole.keys(100, 2100))
        assert [apart.where(row) for row in (0, 2999)] == [whole.where(row) for row in (0, 2999)]
        assert apart.is_spliceable == whole.is_spliceable
        assert records_seen(apart) == records_seen(whole)


def records_seen(dump: Dump) -> list[Record]:
    return list(dump.iter_records())


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_verdicts_without_rewards_are_worth_as_much(tmp_path: Path, kind: str) -> None:
    records = [
        {"group_id": "g", "trajectory_id": f"t{row}", "resolved": None if row == 5 else row % 2 == 0}
        for row in range(9)
    ]
    lines: list[Record] = [
        {
            "group_id": "g",
            "candidates": [
                {"trajectory_id": f"t{row}", "tier": "T1", "rank": row} for row in (0, 2, 4, 6, 8)
            ],
        }
    ]
    dump, ranked = write(tmp_path, records, lines, kind)
    made = [outcome(tmp_path, dump, ranked, read) for read in (IN_MEMORY, APART)]
    assert made[0] == made[1]
    rows = [json.loads(text) for text in made[1][1].splitlines()]  # type: ignore[index]
    assert [row["reward_effective"] for row in rows] == [1.0, 0.0, 1.0, 0.0, 1.0, None, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("is_empty", [True, False], ids=["an empty file", "no file"])
def test_without_rankings_no_index_of_texts_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_empty: bool
) -> None:
    dump, ranked = write(tmp_path, records_of(300), [], "jsonl")
    name: Any = ranked if is_empty else None
    expected = outcome(tmp_path, dump, name, IN_MEMORY, method="grpo", check=True)
    monkeypatch.setattr(RowTable, "whole", None)
    assert outcome(tmp_path, dump, name, APART, method="grpo", check=True) == expected
    assert expected[0]["n_records"] == 300  # type: ignore[index]
