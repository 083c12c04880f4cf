"""A writer that is killed at any moment loses no record that it had acknowledged."""

import random
import subprocess
import sys
import time
from pathlib import Path

from gagar_cli.io.ledger import Ledger

N_KILLS = 25
WRITER = """
import sys
from gagar_cli.io.ledger import Ledger
with Ledger.open(sys.argv[1], config={"a": 1}) as ledger:
    n = len(ledger.records)
    while True:
        ledger.append({"n": n, "text": "x" * (n * 37 % 4000)})
        sys.stdout.write(f"{n}\\n")
        sys.stdout.flush()
        n += 1
"""


def test_no_acknowledged_record_is_lost_to_sigkill(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    chance = random.Random(7)
    n_acknowledged = 0
    deadline = time.monotonic() + 12
    for _ in range(N_KILLS):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            told = writer.stdout.readline()
            time.sleep(chance.uniform(0, 0.02))
            writer.kill()
            told += writer.stdout.read()
        if lines := told.splitlines(keepends=True):
            whole = [line for line in lines if line.endswith(b"\n")]
            n_acknowledged = int(whole[-1]) + 1
        with Ledger.open(str(path), config={"a": 1}) as ledger:
            assert [record["n"] for record in ledger.records][:n_acknowledged] == list(range(n_acknowledged))
            # At most the one record that was on disk when its writer died before telling so.
            assert len(ledger.records) - n_acknowledged <= 1
            n_acknowledged = len(ledger.records)
        if time.monotonic() > deadline:
            break
    assert n_acknowledged > N_KILLS
