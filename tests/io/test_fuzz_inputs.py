"""Damaged inputs of every kind: read, or refused with one of our errors; no crash, no hang, memory bounded.

`GAGAR_FUZZ_CASES` sets the cases of the long run, for each of the nine kinds.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("fuzz_inputs.py")
KINDS = ("jsonl", "native", "gzip", "zstd", "parquet", "diff", "rubric", "tiers", "prices")
MAX_PEAK_BYTES = 10**9
N_CASES = int(os.environ.get("GAGAR_FUZZ_CASES", "700"))


def fuzz(kind: str, n_cases: int, seed: int) -> dict[str, int]:
    argv = [sys.executable, "-X", "faulthandler", str(PROGRAM), kind, str(n_cases), str(seed)]
    ended = subprocess.run(argv, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-4000:]
    found: dict[str, int] = json.loads(ended.stdout)
    assert found["cases"] == n_cases
    assert found["peak_bytes"] < MAX_PEAK_BYTES
    return found


def test_the_long_run_has_five_thousand_cases_and_more() -> None:
    assert N_CASES * len(KINDS) >= 5000


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "diff"])
def test_a_few_damaged_inputs_are_read_or_refused(kind: str) -> None:
    n_read = fuzz(kind, 25, seed=1)["read"]
    # A patch is always read: what is wrong with it is a part of what it says.
    assert n_read == 25 if kind == "diff" else n_read < 25


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_inputs_are_read_or_refused(kind: str) -> None:
    fuzz(kind, N_CASES, seed=int(os.environ.get("GAGAR_FUZZ_SEED", "7")))
