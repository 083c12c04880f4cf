"""One made-up attempt, played on a real copy of the demo repository.

An attempt is a function that takes a `Session` and plays turns. Reading, editing and running tests really happen in
the copy, so results, patches and test outputs in the dump are what a policy would have seen; only `shell` takes its
output from the script (there is no git history to show). Everything is made independent of machine and Python version.
"""

import difflib
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

WORKDIR = "/repo"
TEST_COMMAND = "python3 -m unittest discover -s tests -t ."
SYSTEM_PROMPT = (
    "You are a coding agent in the repository at /repo. Mend what the issue describes in the library itself; hidden tests "
    "decide. Tools: `bash` runs a command, `edit` replaces text in a file or creates one. Reply without a tool call "
    "when you are done."
)


class Call(NamedTuple):
    """One tool call and what came back."""

    name: str
    arguments: dict[str, str]
    result: str


Action = Callable[[Path], Call]


class Session:
    """The messages of one attempt and the tree it works in."""

    def __init__(self, tree: Path, issue: str) -> None:
        self.tree = tree
        self.messages: list[dict[str, object]] = [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": issue},
        ]
        self.n_turns = 0
        self.n_written_chars = 0

    def turn(self, thought: str, *actions: Action) -> None:
        """Play one turn: a reply with tool calls, and their results."""
        self.n_turns += 1
        calls = [action(self.tree) for action in actions]
        entries = []
        for index, call in enumerate(calls):
            arguments = json.dumps(call.arguments, ensure_ascii=False)
            function = {"name": call.name, "arguments": arguments}
            entries.append({"id": f"call_{self.n_turns}_{index}", "type": "function", "function": function})
            self.n_written_chars += len(arguments)
        self.n_written_chars += len(thought)
        message: dict[str, object] = {"role": "assistant", "content": thought}
        self.messages.append({**message, "tool_calls": entries} if entries else message)
        for entry, call in zip(entries, calls, strict=True):
            self.messages.append(
                {"role": "tool", "tool_call_id": entry["id"], "name": call.name, "content": call.result}
            )

    @property
    def n_output_tokens(self) -> int:
        """About four characters a token."""
        return self.n_written_chars // 4


def bash(command: str, result: str) -> Call:
    return Call("bash", {"command": command}, result)


def show(path: str, first: int = 1, last: int | None = None) -> Action:
    """Print lines of a file."""

    def act(tree: Path) -> Call:
        lines = (tree / path).read_text(encoding="utf-8").splitlines(keepends=True)
        command = f"cat {path}" if last is None else f"sed -n '{first},{last}p' {path}"
        return bash(command, "".join(lines[first - 1 : last]))

    return act


def find(word: str) -> Action:
    """Search all Python files for a fixed string."""

    def act(tree: Path) -> Call:
        hits = [
            f"{path.relative_to(tree).as_posix()}:{number}:{line}"
            for path in sorted(tree.rglob("*.py"))
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if word in line
        ]
        return bash(f"grep -rnF '{word}' --include='*.py' shelfmark tests", "\n".join(hits) + "\n")

    return act


def edit(path: str, old: str, new: str) -> Action:
    """Replace a text that stands in the file once."""

    def act(tree: Path) -> Call:
        text = (tree / path).read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise ValueError(f"{path}: the old text stands {text.count(old)} times:\n{old}")
        (tree / path).write_text(text.replace(old, new), encoding="utf-8")
        arguments = {"command": "str_replace", "path": f"{WORKDIR}/{path}", "old_str": old, "new_str": new}
        return Call("edit", arguments, f"{path} was edited: 1 replacement.")

    return act


def create(path: str, text: str) -> Action:
    """Write a whole file."""

    def act(tree: Path) -> Call:
        (tree / path).write_text(text, encoding="utf-8")
        arguments = {"command": "create", "path": f"{WORKDIR}/{path}", "file_text": text}
        return Call("edit", arguments, f"{path} was written.")

    return act


def remove(path: str) -> Action:
    """Delete a file."""

    def act(tree: Path) -> Call:
        (tree / path).unlink()
        return bash(f"rm {path}", "")

    return act


def python(*arguments: str) -> Action:
    """Run a script of the tree, or `-c` code."""

    def act(tree: Path) -> Call:
        shown = " ".join(f'"{argument}"' if " " in argument else argument for argument in arguments)
        return bash(f"python3 {shown}", run_python(tree, "-E", "-s", *arguments).output)

    return act


def run_visible_tests(module: str | None = None) -> Action:
    """Run the visible tests."""

    def act(tree: Path) -> Call:
        pattern = f" -p {module}.py" if module else ""
        return bash(TEST_COMMAND + pattern, run_tests(tree, f"{module}.py" if module else "test*.py").output)

    return act


def shell(command: str, output: str) -> Action:
    """A command whose output is scripted."""
    return lambda _tree: bash(command, output)


class Outcome(NamedTuple):
    """How a run of Python ended."""

    exit_code: int
    output: str


def run_tests(tree: Path, pattern: str = "test*.py") -> Outcome:
    """Run the tree's tests; the output without anything that differs between machines."""
    return run_python(tree, "-I", "-m", "unittest", "discover", "-s", "tests", "-t", ".", "-p", pattern)


def run_python(tree: Path, *arguments: str) -> Outcome:
    """Run Python in the tree with an empty environment."""
    environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "PYTHON_COLORS": "0"}
    command = [sys.executable, "-B", "-X", "utf8", *arguments]
    ran = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return Outcome(ran.returncode, _steady(ran.stdout + ran.stderr, tree))


def _steady(output: str, tree: Path) -> str:
    output = output.replace(str(tree.resolve()), WORKDIR).replace(str(tree), WORKDIR)
    # Python versions differ in the markers below a traceback's lines and in blank lines.
    output = re.sub(r"\n{3,}", "\n\n", re.sub(r"(?m)^ *[~^]+ *\n", "", output))
    return re.sub(r"(Ran \d+ tests? in )\d+\.\d+s", r"\g<1>0.004s", output)


def git_diff(before: dict[str, str], after: dict[str, str]) -> str:
    """The patch between two trees of text files, as git writes it."""
    parts = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        mode = (
            "new file mode 100644\n" if old is None else "deleted file mode 100644\n" if new is None else ""
        )
        index = f"index {_blob_id(old)}..{_blob_id(new)}" + (" 100644" if not mode else "")
        names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
        lines = difflib.unified_diff((old or "").splitlines(True), (new or "").splitlines(True), *names)
        parts.append(f"diff --git a/{path} b/{path}\n{mode}{index}\n" + "".join(lines))
    return "".join(parts)


def _blob_id(text: str | None) -> str:
    if text is None:
        return "0" * 7
    raw = text.encode()
    return hashlib.sha1(b"blob %d\0" % len(raw) + raw, usedforsecurity=False).hexdigest()[:7]


def read_tree(tree: Path) -> dict[str, str]:
    """All files of a tree by their path."""
    return {
        path.relative_to(tree).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(tree.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
