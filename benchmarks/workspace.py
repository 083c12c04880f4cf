"""Memory and time of one large group's workspace: 16 candidates and a failing attempt, 120 turns each, from a dump.

    python benchmarks/workspace.py [--candidates 16] [--turns 120] [--log-kb 200] [--case attempt-jsonl …]

Cases: 200 KB of log to each attempt or to each turn (24 MB an attempt, 400 MB in the group), as JSON lines and as
Parquet. The dump is written first; a process of its own then opens it, reads the group as `gagar grade` does, makes the
workspace and shows its overview: that is "ready". Each kind of tool call and a submission with evidence follow. Seconds
are of the wall, CPU is that of all threads; memory is the peak of resident memory of the whole process.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_WORDS = (
    "test", "module", "passed", "value", "error", "line", "import", "return", "class", "table", "index", "assert",
    "result", "total",
)  # fmt: skip
CASES = ("attempt-jsonl", "attempt-parquet", "turn-jsonl", "turn-parquet")
# What is installed has its bytecode; without, the start compiles all of it.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def make_log(random_source: random.Random, n_chars: int) -> str:
    """Lines as test runners print them, of so many characters."""
    lines, size = [], 0
    while size < n_chars:
        words = " ".join(random_source.choices(_WORDS, k=random_source.randint(2, 12)))
        lines.append(f"tests/test_{random_source.randint(1, 999)}.py::test_{words} PASSED")
        size += len(lines[-1]) + 1
    return "\n".join(lines)


def make_patch(number: int) -> str:
    """A patch of five files with forty added lines each."""
    parts = []
    for file in range(5):
        body = "".join(f"+    value_{line} = compute({number}, {line})\n" for line in range(40))
        parts.append(
            f"diff --git a/src/m{file}.py b/src/m{file}.py\n--- a/src/m{file}.py\n+++ b/src/m{file}.py\n"
            f"@@ -1,2 +1,42 @@\n def run():\n{body}     return value\n"
        )
    return "".join(parts)


def make_records(
    n_candidates: int, n_turns: int, turn_chars: int, output_chars: int
) -> Iterator[dict[str, Any]]:
    """A group whose first attempt failed and whose others passed."""
    random_source = random.Random(0)
    for number in range(n_candidates + 1):
        messages: list[dict[str, Any]] = [{"role": "user", "content": "solve it"}]
        for turn in range(n_turns):
            command = f'{{"command": "python -m pytest tests/test_{turn}.py -k case_{turn} && git log -n 3"}}'
            if turn == n_turns - 1:
                command = '{"command": "git show origin/main"}'
            call = {"type": "function", "function": {"name": "bash", "arguments": command}}
            messages.append({"role": "assistant", "content": "I look at it. " * 20, "tool_calls": [call]})
            log = make_log(random_source, turn_chars) + (make_patch(number) if turn == n_turns - 1 else "")
            messages.append({"role": "tool", "content": log, "tool_calls": []})
        yield {
            "trajectory_id": f"t{number}",
            "group_id": "large",
            "resolved": number > 0,
            "problem_statement": "solve it",
            "messages": messages,
            "model_patch": make_patch(number),
            "test_output": make_log(random_source, output_chars),
        }


def write_dump(path: Path, records: Iterator[dict[str, Any]]) -> None:
    """The records as JSON lines or Parquet, by the suffix."""
    if path.suffix == ".jsonl":
        with path.open("w") as stream:
            stream.writelines(json.dumps(record) + "\n" for record in records)
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for record in records:
        table = pa.Table.from_pylist([record])
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table.cast(writer.schema))
    if writer is not None:
        writer.close()


def peak_mb() -> float:
    """Peak resident memory of this process; `ru_maxrss` would begin with that of the one that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


class Clock:
    """Prints what each step took."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def tell(self, step: str, more: str = "") -> None:
        """Seconds since the step before."""
        wall, cpu = time.perf_counter(), time.process_time()
        print(
            f"  {step:26} {wall - self.wall:7.3f} s {cpu - self.cpu:7.3f} s CPU {peak_mb():6.0f} MB  {more}"
        )
        self.wall, self.cpu = wall, cpu


async def measure(path: str) -> None:
    """Open, read, make ready, and every kind of call once."""
    from gagar_cli import grade  # what the command imports
    from gagar_cli.grader.tools import Toolbox
    from gagar_cli.grader.workspace import Workspace
    from gagar_cli.grading_plan import plan_groups
    from gagar_cli.io.dump import ReadOptions, open_dump

    print(f"  {'imports':26} {'':30} {peak_mb():6.0f} MB")
    clock = Clock()
    with open_dump([path], ReadOptions()) as dump:
        (job,) = plan_groups(dump).jobs
        clock.tell("open")
        started = time.perf_counter()
        group, _ = grade._read_group(job, dump)
        clock.tell("read, with its digest")
        workspace = Workspace(group, seed=0, repository=None)
        toolbox = Toolbox(workspace, None)
        await toolbox.call("overview", {})
        clock.tell("workspace", f"ready in {time.perf_counter() - started:.3f} s")
        calls: list[tuple[str, Mapping[str, Any]]] = [
            ("overview", {}),
            ("list_turns", {"candidate": "c01"}),
            ("view_turns", {"candidate": "c02", "first": 7}),
            ("view_turns", {"candidate": "c02", "first": 1, "last": 120}),
            ("view_patch", {"candidate": "c03"}),
            ("view_test_output", {"candidate": "c04"}),
            ("search", {"text": "no such text anywhere"}),
            ("search", {"text": r"import\s+value\s+PASSEDX", "regex": True}),
            ("search", {"text": r"^import\s+value\s+PASSED$", "regex": True}),
            ("search", {"text": r"PASSED[^q]+FAILED$", "regex": True}),
            ("search", {"text": "PASSED"}),
            ("compare_patches", {"first": "c01", "second": "c02"}),
        ]
        for name, arguments in calls:
            shown = await toolbox.call(name, arguments)
            clock.tell(name, f"{len(shown)} characters of {arguments}")
        await asyncio.to_thread(submit, workspace)
        clock.tell("submission with evidence")


def submit(workspace: Any) -> None:
    """A submission that cites a turn of every candidate, with an integrity verdict on each."""
    from gagar_cli.grader.acceptance import Acceptance

    scores = dict.fromkeys(("approach", "precision", "minimality", "side_effects", "consistency"), 5)
    supports = ["integrity_violation"]
    entries = [
        {
            "id": name,
            "scores": scores,
            "flags": {"integrity_violation": True},
            "findings": [
                {
                    "claim": "it read",
                    "kind": "turn",
                    "at": f"{name}:turn:120",
                    "anchor": "git show origin/main",
                    "supports": supports,
                },
                {
                    "claim": "it added",
                    "kind": "patch",
                    "at": f"{name}:src/m1.py:4",
                    "anchor": "value_2 = compute",
                    "supports": supports,
                },
            ],
            "rationale": "sound",
        }
        for name in workspace.candidates
    ]
    assert Acceptance(workspace).accept({"candidates": entries})


def main() -> None:
    """Write the dumps, measure each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--turns", type=int, default=120)
    parser.add_argument("--log-kb", type=int, default=200)
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--measure", metavar="DUMP", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        asyncio.run(measure(options.measure))
        return
    log_chars = options.log_kb * 1000
    for case in options.case or CASES:
        log_of, _, form = case.partition("-")
        turn_chars = log_chars if log_of == "turn" else log_chars // options.turns
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"dump.{form}"
            write_dump(path, make_records(options.candidates, options.turns, turn_chars, log_chars))
            print(f"{case}: {path.stat().st_size / 1e6:.0f} MB", flush=True)
            subprocess.run([sys.executable, __file__, "--measure", str(path)], check=True, env=ENVIRONMENT)


if __name__ == "__main__":
    main()
