"""An owner of 16 sandboxes is killed: nothing of ours is left a second later. The benchmark does it 50 times."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "owner_killed.py"


@pytest.mark.slow
def test_nothing_is_left_of_16_sandboxes_whose_owner_is_killed(backend):
    command = [sys.executable, str(SCRIPT), "--backend", backend.name, "--rounds", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout == f"{backend.name}: 3 owners of 16 sandboxes killed, 0 left something\n"
