"""Memory and time of one large group's workspace: 16 candidates of 120 turns with 200 KB of log each.

    python benchmarks/workspace.py [--candidates 16] [--turns 120] [--log-kb 200] [--log-of attempt|turn]

The log stands twice: as the results of the turns and as the test output. `--log-of turn` gives every turn a log of that
size. Prints seconds until the workspace can answer (built, overview shown: patches parsed, turns split, leads found),
seconds of each kind of tool call, and the peak of resident memory above that of the imports, the group's own text
included.
"""

import argparse
import asyncio
import random
import resource
import time
from collections.abc import Mapping
from typing import Any

from gagar_cli.core.schema import Group, GroupKey, Message, Task, ToolCall, Trajectory
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.workspace import Workspace

_WORDS = [
    "test",
    "module",
    "passed",
    "value",
    "error",
    "line",
    "import",
    "return",
    "class",
    "table",
    "index",
    "assert",
    "result",
    "total",
]


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


def make_group(n_candidates: int, n_turns: int, turn_chars: int, output_chars: int) -> Group:
    """A group whose first attempt failed and whose others passed."""
    random_source = random.Random(0)
    attempts = []
    for number in range(n_candidates + 1):
        messages = [Message("user", "solve it")]
        for turn in range(n_turns):
            command = f'{{"command": "python -m pytest tests/test_{turn}.py -k case_{turn} && git log -n 3"}}'
            messages.append(Message("assistant", "I look at it. " * 20, (ToolCall("bash", command),)))
            messages.append(Message("tool", make_log(random_source, turn_chars)))
        output = make_log(random_source, output_chars)
        passed = number > 0
        attempts.append(
            Trajectory(f"t{number}", float(passed), passed, tuple(messages), make_patch(number), output)
        )
    return Group(GroupKey(None, "large"), Task("large-1", "solve it"), tuple(attempts))


def peak_mb() -> float:
    """Peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def measure(workspace: Workspace) -> None:
    """Every kind of call once, on the group as a grader would make them."""
    toolbox = Toolbox(workspace, None)
    calls: list[tuple[str, Mapping[str, Any]]] = [
        ("overview", {}),
        ("list_turns", {"candidate": "c01"}),
        ("view_turns", {"candidate": "c02", "first": 1, "last": 120}),
        ("view_patch", {"candidate": "c03"}),
        ("view_test_output", {"candidate": "c04"}),
        ("search", {"text": "no such text anywhere"}),
        ("search", {"text": r"import\s+value\s+PASSED$", "regex": True}),
        ("compare_patches", {"first": "c01", "second": "c02"}),
    ]
    for name, arguments in calls:
        started = time.perf_counter()
        shown = await toolbox.call(name, arguments)
        print(f"{name:18} {time.perf_counter() - started:7.3f} s {len(shown):7d} characters")


def main() -> None:
    """Build, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--turns", type=int, default=120)
    parser.add_argument("--log-kb", type=int, default=200)
    parser.add_argument("--log-of", choices=("attempt", "turn"), default="attempt")
    options = parser.parse_args()
    at_start = peak_mb()
    log_chars = options.log_kb * 1000
    turn_chars = log_chars if options.log_of == "turn" else log_chars // options.turns
    group = make_group(options.candidates, options.turns, turn_chars, log_chars)
    with_text = peak_mb()
    started = time.perf_counter()
    workspace = Workspace(group, seed=0, repository=None)
    asyncio.run(Toolbox(workspace, None).call("overview", {}))
    print(f"ready              {time.perf_counter() - started:7.3f} s")
    asyncio.run(measure(workspace))
    print(f"memory: the group's text {with_text - at_start:.0f} MB, all {peak_mb() - at_start:.0f} MB")


if __name__ == "__main__":
    main()
