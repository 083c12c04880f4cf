"""Synthetic rollouts for the redistribution benchmark: narrow ones of scalars, wide ones with long transcripts.

Groups of 16, rows shuffled; every group has passes and failures; rankings hold the passes of every group in another
order. The texts are windows of the standard library's source with unique prose between them, which compress about
4:1; real logs may differ.
"""

import json
import random
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

GROUP_SIZE = 16
WIDE_ROW_BYTES = 249_000
ROWS_IN_ROW_GROUP = 128
_TIERS = ("T1", "T2", "T3")


def make_scalars(n_rows: int, seed: int = 7) -> pl.DataFrame:
    """Ids and rewards of `n_rows` attempts, and tier and rank of those that pass."""
    rng = np.random.default_rng(seed)
    n_groups = max(n_rows // GROUP_SIZE, 1)
    n_rows = n_groups * GROUP_SIZE
    group = np.repeat(np.arange(n_groups), GROUP_SIZE)
    n_passes = np.repeat(rng.integers(2, GROUP_SIZE - 1, n_groups), GROUP_SIZE)
    is_pass = np.tile(np.arange(GROUP_SIZE), n_groups) < n_passes
    tier = rng.integers(0, 3, n_rows)
    codes = pl.Series(group).cast(pl.String).str.zfill(7)
    frame = pl.DataFrame(
        {
            "group_id": pl.select(pl.format("repo__task-{}", pl.Series(codes))).to_series(),
            "trajectory_id": pl.select(
                pl.format(
                    "traj-{}-{}", pl.Series(group).cast(pl.String).str.zfill(7), pl.Series(np.arange(n_rows))
                )
            ).to_series(),
            "reward": is_pass.astype(np.float64),
            "n_output_tokens": rng.integers(500, 60_000, n_rows),
            "tier": pl.Series(_TIERS).gather(tier),
            "rank": rng.integers(0, 4, n_rows),
        }
    )
    # Neighbouring groups finish together: shuffled within a training step, not over the whole run.
    step = np.arange(n_rows) // (GROUP_SIZE * 128)
    return frame[np.lexsort((rng.random(n_rows), step))]


def write_rankings(scalars: pl.DataFrame, jsonl: Path, parquet: Path) -> None:
    """Rankings of the passes: one line a group, and one row a candidate."""
    passes = scalars.filter(pl.col("reward") == 1).sample(fraction=1, shuffle=True, seed=3)
    passes.select("group_id", "trajectory_id", "tier", "rank").write_parquet(parquet)
    groups = passes.group_by("group_id").agg("trajectory_id", "tier", "rank")
    with jsonl.open("w") as stream:
        for group_id, ids, tiers, ranks in groups.iter_rows():
            candidates = [
                {"trajectory_id": each, "tier": tier, "rank": rank}
                for each, tier, rank in zip(ids, tiers, ranks, strict=True)
            ]
            stream.write(json.dumps({"group_id": group_id, "candidates": candidates}) + "\n")


def write_wide(scalars: pl.DataFrame, jsonl: Path, parquet: Path, *, row_bytes: int = WIDE_ROW_BYTES) -> None:
    """The attempts with messages and a patch: JSON lines, and Parquet in row groups of 128."""
    rng = random.Random(11)
    source = _source_text()
    writer: pq.ParquetWriter | None = None
    keys = scalars.select("group_id", "trajectory_id", "reward", "n_output_tokens")
    with jsonl.open("w") as stream:
        for part in keys.iter_slices(ROWS_IN_ROW_GROUP):
            records = []
            for row in part.iter_rows(named=True):
                record = {
                    "group_id": row["group_id"],
                    "trajectory_id": row["trajectory_id"],
                    "problem_statement": _prose(rng, 1500),
                    "messages": _messages(rng, source, row_bytes),
                    "model_patch": _window(rng, source, 4000),
                    "n_output_tokens": row["n_output_tokens"],
                    "reward": row["reward"],
                }
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
                records.append(record)
            table = pa.Table.from_pylist(records)
            if writer is None:
                writer = pq.ParquetWriter(parquet, table.schema, compression="zstd", compression_level=3)
            writer.write_table(table)
    if writer is not None:
        writer.close()


def _messages(rng: random.Random, source: str, n_bytes: int) -> list[dict[str, str]]:
    messages = [{"role": "system", "content": _prose(rng, 800)}]
    n_made = 0
    while n_made < n_bytes - 8000:
        reply, result = _prose(rng, 700), _window(rng, source, 5500)
        messages += [{"role": "assistant", "content": reply}, {"role": "tool", "content": result}]
        n_made += len(reply) + len(result) + 450
    return messages


def _source_text() -> str:
    folder = Path(json.__file__).parent.parent
    return "".join(path.read_text(errors="ignore") for path in sorted(folder.glob("*.py"))[:120])


def _window(rng: random.Random, source: str, n_chars: int) -> str:
    start = rng.randrange(len(source) - n_chars)
    return source[start : start + n_chars]


def _prose(rng: random.Random, n_chars: int) -> str:
    return " ".join(f"{rng.getrandbits(40):x}" for _ in range(n_chars // 11))


def main() -> None:
    """`python redistribute_inputs.py FOLDER N_ROWS [ROW_BYTES]`: narrow without the last one."""
    folder, n_rows, *row_bytes = sys.argv[1:]
    scalars = make_scalars(int(n_rows))
    write_rankings(scalars, Path(folder, "rankings.jsonl"), Path(folder, "rankings.parquet"))
    if row_bytes:
        write_wide(
            scalars, Path(folder, "dump.jsonl"), Path(folder, "dump.parquet"), row_bytes=int(row_bytes[0])
        )
    else:
        keys = scalars.select("group_id", "trajectory_id", "reward", "n_output_tokens")
        keys.write_parquet(Path(folder, "dump.parquet"))


if __name__ == "__main__":
    main()
