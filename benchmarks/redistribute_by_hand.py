"""The same job written by hand with other libraries, one function a contender: `python redistribute_by_hand.py NAME …`.

Read ids, rewards and rankings; A = r − mean r by group; passes get λ q A with λ = min(ΣA / ΣqA, 1.5), then the group's
mean is subtracted; write. Each starts its own process, so that imports count.
"""

import json
import sys
from pathlib import Path

FACTORS = {"T1": 1.0, "T2": 0.7, "T3": 0.4}
KEYS = ["group_id", "trajectory_id", "reward"]


def polars_read(dump: str, rankings: str, _: str) -> None:
    """Three columns and the rankings, and nothing else: what any job has to do at least."""
    import polars as pl

    pl.read_parquet(dump, columns=KEYS)
    pl.read_parquet(rankings)


def polars_copy(dump: str, _: str, output: str) -> None:
    """Decode and encode, nothing computed."""
    import polars as pl

    pl.scan_parquet(dump).sink_parquet(output)


def polars_sidecar(dump: str, rankings: str, output: str) -> None:
    _polars_advantages(dump, rankings).write_parquet(output)


def polars_full(dump: str, rankings: str, output: str) -> None:
    import polars as pl

    added = _polars_advantages(dump, rankings).select("group_id", "trajectory_id", "advantage")
    pl.scan_parquet(dump).join(added.lazy(), on=["group_id", "trajectory_id"], how="left").sink_parquet(
        output
    )


def _polars_advantages(dump, rankings):
    import polars as pl

    rows = pl.read_parquet(dump, columns=KEYS)
    ranked = pl.read_parquet(rankings, columns=["group_id", "trajectory_id", "tier"])
    q = pl.col("tier").replace_strict(FACTORS, default=1.0, return_dtype=pl.Float64)
    rows = rows.join(ranked, on=["group_id", "trajectory_id"], how="left").with_columns(q.alias("q"))
    rows = rows.with_columns(a=pl.col("reward") - pl.col("reward").mean().over("group_id"))
    is_pass = pl.col("reward") == 1
    total = pl.col("a").filter(is_pass).sum().over("group_id")
    weighted = (pl.col("a") * pl.col("q")).filter(is_pass).sum().over("group_id")
    rows = rows.with_columns(multiplier=pl.min_horizontal(total / weighted, 1.5))
    moved = pl.when(is_pass).then(pl.col("a") * pl.col("q") * pl.col("multiplier")).otherwise("a")
    rows = rows.with_columns(advantage=moved)
    return rows.with_columns(pl.col("advantage") - pl.col("advantage").mean().over("group_id"))


_SQL = """
with r as (select d.{columns}, case k.tier when 'T1' then 1.0 when 'T2' then 0.7 when 'T3' then 0.4 else 1.0 end q
  from read_parquet('{dump}') d left join read_parquet('{rankings}') k using (group_id, trajectory_id)),
a as (select *, reward - avg(reward) over (partition by group_id) a from r),
g as (select group_id, least(sum(a) filter (reward = 1) / sum(q * a) filter (reward = 1), 1.5) m from a group by 1),
m as (select a.*, case when reward = 1 then m * q * a else a end moved from a join g using (group_id)),
c as (select group_id, avg(moved) mean from m group by 1)
select m.* exclude (a, q, moved), moved - mean advantage from m join c using (group_id)
"""


def duckdb_sidecar(dump: str, rankings: str, output: str) -> None:
    columns = "group_id, d.trajectory_id, d.reward"
    _duckdb(dump, rankings, output, columns)


def duckdb_full(dump: str, rankings: str, output: str) -> None:
    _duckdb(dump, rankings, output, "*")


def _duckdb(dump: str, rankings: str, output: str, columns: str) -> None:
    import duckdb

    query = _SQL.format(columns=columns, dump=dump, rankings=rankings)
    duckdb.execute(f"copy ({query}) to '{output}' (format parquet)")


def pandas_sidecar(dump: str, rankings: str, output: str) -> None:
    import pandas as pd

    rows = pd.read_parquet(dump, columns=KEYS)
    ranked = pd.read_parquet(rankings, columns=["group_id", "trajectory_id", "tier"])
    rows = rows.merge(ranked, on=["group_id", "trajectory_id"], how="left")
    rows["q"] = rows["tier"].map(FACTORS).fillna(1.0)
    groups = rows.groupby("group_id", sort=False)
    rows["a"] = rows["reward"] - groups["reward"].transform("mean")
    is_pass = rows["reward"] == 1
    rows["of_pass"] = rows["a"].where(is_pass, 0.0)
    rows["weighted"] = (rows["a"] * rows["q"]).where(is_pass, 0.0)
    groups = rows.groupby("group_id", sort=False)
    multiplier = (groups["of_pass"].transform("sum") / groups["weighted"].transform("sum")).clip(upper=1.5)
    rows["advantage"] = (rows["a"] * rows["q"] * multiplier).where(is_pass, rows["a"])
    rows["advantage"] -= rows.groupby("group_id", sort=False)["advantage"].transform("mean")
    rows[[*KEYS, "advantage"]].to_parquet(output)


def orjson_sidecar(dump: str, rankings: str, output: str) -> None:
    import orjson

    made = _advantages_of_lines(dump, rankings, orjson.loads)
    with Path(output).open("wb") as stream:
        stream.writelines(
            orjson.dumps({"trajectory_id": record[1], "advantage": advantage}) + b"\n"
            for record, advantage in made
        )


def orjson_full(dump: str, rankings: str, output: str) -> None:
    _rewrite(dump, rankings, output, "orjson")


def json_full(dump: str, rankings: str, output: str) -> None:
    _rewrite(dump, rankings, output, "json")


def _rewrite(dump: str, rankings: str, output: str, name: str) -> None:
    import orjson

    loads, dumps = (
        (orjson.loads, orjson.dumps)
        if name == "orjson"
        else (json.loads, lambda each: json.dumps(each).encode())
    )
    made = _advantages_of_lines(dump, rankings, loads)
    with Path(dump).open("rb") as source, Path(output).open("wb") as stream:
        for line, (_, advantage) in zip(source, made, strict=True):
            record = loads(line)
            record["advantage"] = advantage
            stream.write(dumps(record) + b"\n")


def _advantages_of_lines(dump, rankings, loads):
    tiers = {}
    with Path(rankings).open("rb") as stream:
        for line in stream:
            group = loads(line)
            for each in group["candidates"]:
                tiers[group["group_id"], each["trajectory_id"]] = each["tier"]
    records = []
    with Path(dump).open("rb") as stream:
        for line in stream:
            record = loads(line)
            records.append((record["group_id"], record["trajectory_id"], record["reward"]))
    groups: dict = {}
    for number, record in enumerate(records):
        groups.setdefault(record[0], []).append(number)
    advantages = [0.0] * len(records)
    for members in groups.values():
        mean = sum(records[n][2] for n in members) / len(members)
        factors = {n: FACTORS.get(tiers.get(records[n][:2]), 1.0) for n in members}
        passes = [n for n in members if records[n][2] == 1]
        weighted = sum(factors[n] * (records[n][2] - mean) for n in passes)
        multiplier = min(sum(records[n][2] - mean for n in passes) / weighted, 1.5) if weighted else 1.0
        moved = {n: records[n][2] - mean for n in members}
        moved |= {n: multiplier * factors[n] * moved[n] for n in passes}
        rest = sum(moved.values()) / len(members)
        for n in members:
            advantages[n] = moved[n] - rest
    return list(zip(records, advantages, strict=True))


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")](*sys.argv[2:])
