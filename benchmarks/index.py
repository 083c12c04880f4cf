"""Indexing JSON lines: rate and peak memory, against `wc -l` and a parse by orjson of the same file in the same run.

Two files, made anew: many short lines, and few lines of 300 KB. Every measurement is a process of its own; the page
cache is warm for all. Sizes scale: `--short-rows 10000000 --long-mb 1000` is the full size.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

LONG_LINE_BYTES = 300_000
GROUP_SIZE = 8
MB = 1e6
# What is installed has its bytecode; without, each start compiles a hundred modules.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def write_short(path: Path, n_rows: int) -> None:
    chance = random.Random(7)
    with path.open("w") as stream:
        for number in range(n_rows):
            is_pass = chance.random() < 0.6
            stream.write(
                f'{{"group_id": "task-{number // GROUP_SIZE}", "trajectory_id": "t{number}", "step": {number // 100_000}, '
                f'"reward": {float(is_pass)}, "resolved": {str(is_pass).lower()}, "n_turns": {chance.randint(1, 80)}}}\n'
            )


def write_long(path: Path, n_bytes: int) -> None:
    source = Path(json.__file__).read_text() * 40
    with path.open("w") as stream:
        for number in range(max(GROUP_SIZE, n_bytes // LONG_LINE_BYTES)):
            start = number * 37 % 5000
            text = source[start : start + LONG_LINE_BYTES - 12_000]
            record = {
                "group_id": f"task-{number // GROUP_SIZE}",
                "trajectory_id": f"t{number}",
                "messages": [{"role": "user", "content": "fix it"}, {"role": "assistant", "content": text}],
                "model_patch": "diff --git a/a.py b/a.py\n",
                "reward": float(number % 3 > 0),
                "n_turns": number % 80,
            }
            stream.write(json.dumps(record) + "\n")


def by_index(path: Path, *, is_index_only: bool) -> int:
    from gagar_cli.io.dump import ReadOptions, open_dump

    with open_dump([str(path)], ReadOptions(is_index_only=is_index_only)) as dump:
        return dump.n_rows


def by_orjson(path: Path) -> int:
    import orjson

    with path.open("rb") as stream:
        return sum(1 for line in stream if orjson.loads(line))


def by_json(path: Path) -> int:
    with path.open("rb") as stream:
        return sum(1 for line in stream if json.loads(line))


def by_wc(path: Path) -> int:
    ended = subprocess.run(["wc", "-l", str(path)], check=True, capture_output=True, text=True)
    return int(ended.stdout.split()[0])


WAYS: dict[str, Callable[[Path], int]] = {
    "wc -l": by_wc,
    "orjson, every line": by_orjson,
    "json, every line": by_json,
    "index (grade, stats)": lambda path: by_index(path, is_index_only=False),
    "index (redistribute)": lambda path: by_index(path, is_index_only=True),
}


def measure_here(way: str, path: Path) -> None:
    """In this process: rows, seconds, and the peak beside what the imports take."""
    started = time.perf_counter()
    n_rows = WAYS[way](path)
    seconds = time.perf_counter() - started
    # Not `ru_maxrss`, which begins with what the parent had. What wc takes is its own.
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    print(json.dumps([n_rows, seconds, peak]))


def measure(way: str, path: Path) -> tuple[int, float, float]:
    argv = [sys.executable, __file__, "--way", way, str(path)]
    ended = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    n_rows, seconds, peak = json.loads(ended.stdout)
    return n_rows, seconds, peak


def table(title: str, path: Path) -> None:
    n_bytes = path.stat().st_size
    by_wc(path)  # into the page cache
    print(f"{title}: {n_bytes / MB:,.0f} MB")
    print(f"  {'':22} {'rows':>11} {'seconds':>8} {'rows/s':>12} {'MB/s':>7} {'peak MB':>8}")
    for way in WAYS:
        n_rows, seconds, peak = measure(way, path)
        rate = f"{n_rows / seconds:>12,.0f} {n_bytes / MB / seconds:>7,.0f}"
        print(f"  {way:22} {n_rows:>11,} {seconds:>8.2f} {rate} {peak / MB:>8,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short-rows", type=int, default=1_000_000)
    parser.add_argument("--long-mb", type=int, default=200)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("path", nargs="?", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.way:
        measure_here(asked.way, asked.path)
        return
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="gagar-index-") as folder:
        path = Path(folder, "short.jsonl")
        # A tenth first: what grows between the two is what the index takes.
        for n_rows in (asked.short_rows // 10, asked.short_rows):
            write_short(path, n_rows)
            table(f"short lines, {n_rows:,}", path)
        path.unlink()
        path = Path(folder, "long.jsonl")
        for n_bytes in (asked.long_mb * 100_000, asked.long_mb * 1_000_000):
            write_long(path, n_bytes)
            table(f"lines of {LONG_LINE_BYTES // 1000} KB", path)


if __name__ == "__main__":
    main()
