"""A full copy that is ended on its way: what stood under the output's name stands."""

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

RECORDS = [
    {"group_id": "g", "trajectory_id": name, "resolved": resolved, "messages": [{"content": name * 400_000}]}
    for name, resolved in (("a", True), ("b", True), ("c", False))
]
RANKING = {
    "group_id": "g",
    "candidates": [
        {"trajectory_id": "a", "tier": "T1", "rank": 1},
        {"trajectory_id": "b", "tier": "T2", "rank": 1},
    ],
}
# The program with one call of the system replaced by its own death.
KILLED_AT = "import os, signal; os.{call} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
PROGRAM = "import sys; from gagar_cli.cli import main; sys.argv[0] = 'gagar'; main()"


def copy(
    folder: Path, suffix: str, code: str, limit: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    (folder / "dump.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    pl.DataFrame(RECORDS).write_parquet(folder / "dump.parquet", compression="uncompressed")
    (folder / "rankings.jsonl").write_text(json.dumps(RANKING) + "\n")
    (folder / f"out{suffix}").write_text("what was there")
    argv = ["redistribute", f"dump{suffix}", "--rankings", "rankings.jsonl", "-o", f"out{suffix}"]
    return subprocess.run(
        [sys.executable, "-c", code, *argv, "--full-copy", "--overwrite"],
        cwd=folder,
        capture_output=True,
        text=True,
        preexec_fn=limit,
    )


@pytest.mark.parametrize(
    ("suffix", "call"), [(".parquet", "copy_file_range"), (".parquet", "fsync"), (".jsonl", "fsync")]
)
def test_output_stands_when_a_full_copy_is_killed(tmp_path: Path, suffix: str, call: str) -> None:
    done = copy(tmp_path, suffix, KILLED_AT.format(call=call) + PROGRAM)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / f"out{suffix}").read_text() == "what was there"


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_output_stands_when_the_disk_takes_no_more(tmp_path: Path, suffix: str) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))

    done = copy(tmp_path, suffix, PROGRAM, limit)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: out{suffix}: cannot be written: file too large")
    assert (tmp_path / f"out{suffix}").read_text() == "what was there"
    assert not list(tmp_path.glob(".*.tmp"))
