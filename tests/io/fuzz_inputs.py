"""Damaged inputs for one kind of reader, in a process of its own: `fuzz_inputs.py KIND CASES SEED`.

Every case is read or refused with an error of ours; anything else ends the process with the case on stderr. The last
line on stdout counts the cases and gives the peak of memory, which the readers of corrupt Parquet are not trusted with.
"""

import gzip
import io
import json
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import polars as pl
import zstandard

from gagar_cli.core.patch import PatchConflict, apply_file, refuse_patch
from gagar_cli.core.patch_parser import parse_patch
from gagar_cli.errors import GagarError
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.prices import read_prices
from gagar_cli.io.rubrics import read_rubric
from gagar_cli.io.tier_tables import read_tier_table

CASE_SECONDS = 30
RECORDS = [
    {
        "group_id": f"g{number // 4}", "trajectory_id": f"t{number}", "step": 1, "reward": float(number % 2), "resolved": bool(number % 2),
        "messages": [{"role": "user", "content": "fix"}, {"role": "assistant", "content": "ü", "tool_calls": [
            {"id": "1", "function": {"name": "sh", "arguments": "{\"a\": 1}"}}]}],
        "model_patch": "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n", "n_turns": 3,
    }
    for number in range(8)
]  # fmt: skip
LINES = "".join(json.dumps(record) + "\n" for record in RECORDS).encode()
NATIVE = [
    json.dumps(document, indent=2).encode()
    for document in (
        {
            "trajectory": [],
            "history": [{"role": "user", "content": "x", "agent": "a"}],
            "info": {"submission": "d"},
        },
        {"trajectory_format": "mini-swe-agent-1", "messages": [{"role": "user", "content": "x"}], "info": {}},
        {
            "task_name": "t",
            "trial_name": "t__x",
            "task_checksum": "0",
            "verifier_result": {"rewards": {"r": 1}},
        },
        {
            "schema_version": "ATIF-v1.7",
            "session_id": "s",
            "agent": {},
            "steps": [{"step_id": 1, "source": "user"}],
        },
        {
            "id": "r",
            "results": [{"task_id": "t", "is_resolved": True, "failure_mode": "unset", "trial_name": "t.1"}],
        },
    )
]
PATCHES = [
    b"diff --git a/a.py b/a.py\nindex 1..2 100644\n--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
    b"diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n",
    b"diff --git a/o b/p\nsimilarity index 90%\nrename from o\nrename to p\n",
    b"diff --git a/b b/b\nGIT binary patch\nliteral 3\nKcmZ\n",
]
RUBRIC = (Path(__file__).parents[2] / "examples" / "library_rubric.toml").read_bytes()
TIERS = b"""ties = "dense"
[cap]
kind = "bounded"
limit = 1.5
[T1]
rule = "top-rest"
top = 1.0
rest = 0.9
[T2]
rule = "linear"
first = 0.85
last = 0.4
[T3]
rule = "flat"
factor = 0.2
"""
PRICES = b'["m"]\nin = 1.0\nout = 2\ncached = 0.5\n'
TOKENS = (
    b"{", b"}", b"[" * 150, b'"', b"\\", b"\x00", b"\xff", b"NaN", b"1e999", b"9" * 400, b"null", b"-", b"\\ud800", b"\n", b"\r",
    b'"group_id":', b"@@ -1 +1 @@\n", b"diff --git a/../x b/.git/x\n", b"=", b"[[", b"'", b"\xe2\x80\xae", b"PAR1", b"\x1f\x8b", b"true",
)  # fmt: skip


def damaged(seeds: Sequence[bytes], chance: random.Random) -> bytes:
    """One of the seeds with a few bytes flipped, cut, doubled, or put in."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 2, 5))):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0 if data:
                data[place % len(data)] ^= 1 << chance.randrange(8)
            case 1:
                data[place : place + chance.randrange(40)] = b""
            case 2:
                data[place:place] = chance.choice(TOKENS)
            case 3:
                other = chance.choice(seeds)
                start = chance.randrange(len(other) + 1)
                data[place:place] = other[start : start + chance.randrange(200)]
            case 4:
                del data[place:]
            case _:
                data[place : place + 1] = chance.randbytes(chance.randrange(5))
    return bytes(data)


def read_as_dump(path: Path) -> None:
    for on_bad_record in ("fail", "skip"):
        with open_dump([str(path)], ReadOptions(on_bad_record=on_bad_record)) as dump:
            dump.read_trajectories(range(dump.index.height))
            for record in dump.iter_records():
                json.dumps(record, default=str)


def read_patch(path: Path) -> None:
    patch = parse_patch(path.read_bytes().decode("utf-8", "replace"))
    refuse_patch(patch)
    for file in patch.files:
        for base in (None, "one\ntwo\nthree\n"):
            with suppress(PatchConflict):
                apply_file(file, base)


def parquet() -> bytes:
    stream = io.BytesIO()
    pl.DataFrame(
        [{**record, "messages": json.dumps(record["messages"])} for record in RECORDS]
    ).write_parquet(stream)
    return stream.getvalue()


def kinds() -> dict[str, tuple[str, list[bytes], Callable[[Path], object]]]:
    """Name of the file, undamaged content, and the reader."""
    return {
        "jsonl": ("d.jsonl", [LINES], read_as_dump),
        "native": ("x.traj.json", NATIVE, read_as_dump),
        "gzip": ("d.jsonl.gz", [gzip.compress(LINES)], read_as_dump),
        "zstd": ("d.jsonl.zst", [zstandard.ZstdCompressor().compress(LINES)], read_as_dump),
        "parquet": ("d.parquet", [parquet()], read_as_dump),
        "diff": ("x.diff", PATCHES, read_patch),
        "rubric": ("r.toml", [RUBRIC], lambda path: read_rubric(str(path))),
        "tiers": ("t.toml", [TIERS], lambda path: read_tier_table(str(path))),
        "prices": ("p.toml", [PRICES], lambda path: read_prices(str(path), "m")),
    }


def main(kind: str, n_cases: int, seed: int) -> int:
    name, seeds, read = kinds()[kind]
    chance = random.Random(seed)
    n_read = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        for number in range(n_cases):
            data = damaged(seeds, chance)
            path.write_bytes(data)
            sys.stderr.write(f"{kind} case {number} of seed {seed}\n")
            signal.alarm(CASE_SECONDS)
            try:
                read(path)
                n_read += 1
            except GagarError as error:
                if not error.message or "\x1b" in error.message:
                    raise AssertionError(data) from error
            except BaseException:
                sys.stderr.write(f"{data!r}\n")
                raise
            signal.alarm(0)
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    sys.stdout.write(json.dumps({"cases": n_cases, "read": n_read, "peak_bytes": peak}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
