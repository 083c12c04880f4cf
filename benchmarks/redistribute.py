"""`gagar redistribute` against the same job by hand and against `cp`: whole processes in turn, one table a case.

    python benchmarks/redistribute.py --rows 100000,1000000 --wide-rows 6400 --rounds 3

Wall and CPU seconds and peak memory are medians over the rounds; ratios are to the first row of a table, CPU by CPU.
Nobody but gagar reaches the disk before it ends: it syncs the file before it takes its name. The page cache is warm.
Inputs are generated in a temporary directory (`--keep DIR` keeps them); wide ones need about 4 times their size.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
BY_HAND = str(HERE / "redistribute_by_hand.py")
GAGAR = [sys.executable, "-m", "gagar_cli", "redistribute", "-q", "--json", "--overwrite"]
# What is installed has its bytecode; without, each start compiles a hundred modules.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Cost(NamedTuple):
    wall_seconds: float
    cpu_seconds: float
    peak_mib: float


def measure(argv: list[str]) -> Cost:
    started = time.perf_counter()
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"exit code {child.returncode}: {' '.join(argv)}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def by_hand(name: str, dump: Path, rankings: Path, output: Path) -> list[str]:
    return [sys.executable, BY_HAND, name, str(dump), str(rankings), str(output)]


def gagar(dump: Path, rankings: Path, output: Path, *more: str) -> list[str]:
    return [*GAGAR, str(dump), "--rankings", str(rankings), "-o", str(output), *more]


def run_case(
    title: str, contenders: dict[str, list[str]], rounds: int, *, n_bytes: int | None = None
) -> None:
    costs: dict[str, list[Cost]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, argv in contenders.items():
            costs[name].append(measure(argv))
    medians = {
        name: Cost(*(statistics.median(column) for column in zip(*runs, strict=True)))
        for name, runs in costs.items()
    }
    base = next(iter(medians.values()))
    rate = f" ({n_bytes / base.wall_seconds / 1e9:.2f} GB/s for the first)" if n_bytes else ""
    print(f"\n{title}{rate}")
    print(f"{'':34} {'wall s':>8} {'CPU s':>8} {'MiB':>7} {'first/this: wall':>17} {'CPU':>6}")
    for name, cost in medians.items():
        ratios = f"{base.wall_seconds / cost.wall_seconds:17.3f} {base.cpu_seconds / max(cost.cpu_seconds, 1e-3):6.3f}"
        print(
            f"{name:34} {cost.wall_seconds:8.3f} {cost.cpu_seconds:8.3f} {cost.peak_mib:7.0f} {ratios}",
            flush=True,
        )


def make_inputs(folder: Path, *sizes: int) -> None:
    # In a process of its own: the peak of a child counts from what its parent had in memory when it was started.
    script = str(HERE / "redistribute_inputs.py")
    subprocess.run([sys.executable, script, str(folder), *map(str, sizes)], check=True)


def narrow(folder: Path, n_rows: int, rounds: int) -> None:
    make_inputs(folder, n_rows)
    dump, output = folder / "dump.parquet", folder / "o.parquet"
    lines, table = folder / "rankings.jsonl", folder / "rankings.parquet"
    contenders = {
        "gagar": gagar(dump, table, output),
        "gagar, rankings as JSON lines": gagar(dump, lines, output),
        "polars": by_hand("polars-sidecar", dump, table, output),
        "duckdb": by_hand("duckdb-sidecar", dump, table, output),
        "pandas": by_hand("pandas-sidecar", dump, table, output),
    }
    if n_rows > 2_000_000:
        del contenders["pandas"]
    run_case(f"narrow Parquet, {n_rows:,} rows, to a sidecar", contenders, rounds)


def wide(folder: Path, n_rows: int, row_bytes: int, rounds: int) -> None:
    make_inputs(folder, n_rows, row_bytes)
    jsonl, parquet = folder / "dump.jsonl", folder / "dump.parquet"
    lines, table = folder / "rankings.jsonl", folder / "rankings.parquet"
    out_parquet, out_jsonl = folder / "o.parquet", folder / "o.jsonl"
    size = f"{n_rows:,} rows, {parquet.stat().st_size / 1e6:,.0f} MB Parquet, {jsonl.stat().st_size / 1e6:,.0f} MB JSON lines"
    run_case(
        f"wide Parquet, {size}, to a full copy",
        {
            "gagar": gagar(parquet, table, out_parquet, "--full-copy"),
            "cp": ["cp", str(parquet), str(out_parquet)],
            "polars, decode and encode only": by_hand("polars-copy", parquet, table, out_parquet),
            "polars": by_hand("polars-full", parquet, table, out_parquet),
            "duckdb": by_hand("duckdb-full", parquet, table, out_parquet),
        },
        rounds,
    )
    out_parquet.unlink()
    run_case(
        "wide Parquet, to a sidecar",
        {
            "gagar": gagar(parquet, table, out_parquet),
            "polars, read 3 columns and exit": by_hand("polars-read", parquet, table, out_parquet),
            "polars": by_hand("polars-sidecar", parquet, table, out_parquet),
            "start-up: gagar --version": [sys.executable, "-m", "gagar_cli", "--version"],
        },
        rounds,
    )
    run_case(
        "wide JSON lines, to a sidecar",
        {
            "gagar": gagar(jsonl, lines, out_parquet),
            "wc -l": ["wc", "-l", str(jsonl)],
            "orjson": by_hand("orjson-sidecar", jsonl, lines, out_jsonl),
        },
        rounds,
        n_bytes=jsonl.stat().st_size,
    )
    run_case(
        "wide JSON lines, to a full copy",
        {
            "gagar": gagar(jsonl, lines, out_jsonl, "--full-copy"),
            "cp": ["cp", str(jsonl), str(out_jsonl)],
            "orjson": by_hand("orjson-full", jsonl, lines, out_jsonl),
        },
        rounds,
        n_bytes=jsonl.stat().st_size,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows", default="100000,1000000", help="rows of narrow dumps, by comma; empty for none"
    )
    parser.add_argument("--wide-rows", type=int, default=6400, help="rows of the wide dump; 0 for none")
    parser.add_argument("--row-bytes", type=int, default=249_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="a directory for the files, kept")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="gagar-benchmark-"))
    folder.mkdir(exist_ok=True)
    needed = 4 * options.wide_rows * options.row_bytes
    if needed > shutil.disk_usage(folder).free:
        raise SystemExit(f"{folder}: needs {needed / 1e9:.1f} GB")
    try:
        for n_rows in filter(None, options.rows.split(",")):
            narrow(folder, int(n_rows), options.rounds)
        if options.wide_rows:
            wide(folder, options.wide_rows, options.row_bytes, options.rounds)
    finally:
        if options.keep is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
