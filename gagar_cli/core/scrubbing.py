"""What names a policy is taken out before a judge sees anything, and looked for again before the first call.

A name is matched whatever its case and separators (`my-model_v2`, `My Model V2`), and not inside a longer word when it
is short. Lines that a patch removes or leaves as they are come from the repository, which is the same for every
policy: they are not touched, so that the patch still applies.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gagar_cli.core.patch import parse_patch
from gagar_cli.core.schema import Group, Message, ToolCall, Trajectory
from gagar_cli.core.text import split_lines

MIN_NAME_CHARS = 3
"""Shorter names would match everywhere."""
_WORD_CHARS = 6
"""Names shorter than this only count as words of their own."""
REPLACEMENT = "policy"


class Scrubber:
    """Finds and replaces the names of policies."""

    def __init__(self, names: Iterable[str]) -> None:
        parts = {part for name in names for part in (name, *_last_parts(name))}
        self.names = tuple(sorted({part for part in parts if len(_letters(part)) >= MIN_NAME_CHARS}))
        alternatives = [_pattern(name) for name in sorted(self.names, key=len, reverse=True)]
        self._pattern = re.compile("|".join(alternatives), re.IGNORECASE) if alternatives else None

    def scrub(self, text: str) -> str:
        """The text with every name replaced."""
        return self._pattern.sub(REPLACEMENT, text) if self._pattern else text

    def find(self, text: str) -> str | None:
        """The first name in a text, as it stands there."""
        found = self._pattern.search(text) if self._pattern else None
        return found.group() if found else None

    def scrub_patch(self, patch: str) -> str:
        """A patch whose added lines, and the names of files that it makes, hold no name."""
        if self.find(patch) is None:
            return patch
        made = [
            file.path for file in parse_patch(patch).files if file.change in ("added", "renamed", "copied")
        ]
        renamed = {path: self.scrub(path) for path in made if self.find(path)}
        lines = []
        for line in patch.split("\n"):
            is_header = line.startswith(("diff --git ", "+++ ", "rename to ", "copy to ", "Binary files "))
            if is_header:
                for path, clean in renamed.items():
                    line = line.replace(path, clean)
            elif line.startswith("+"):
                line = "+" + self.scrub(line[1:])
            lines.append(line)
        return "\n".join(lines)


def scrub_trajectory(trajectory: Trajectory, scrubber: Scrubber, *, shows: str) -> Trajectory:
    """What a judge may see of an attempt.

    `shows`: `patch`; `patch+tests`, with the test output; `full`, with all messages but the system's.
    """
    messages = trajectory.messages if shows == "full" else ()
    patch, output = trajectory.model_patch, trajectory.test_output
    return replace(
        trajectory,
        messages=tuple(_scrub_message(one, scrubber) for one in messages if one.role != "system"),
        model_patch=None if patch is None else scrubber.scrub_patch(patch),
        test_output=None if output is None or shows == "patch" else scrubber.scrub(output),
        exit_status=None,
        where="",
    )


def find_leak(group: Group, scrubber: Scrubber) -> tuple[str, str] | None:
    """The first name that a judge could still read in a group: (trajectory id and place, the name); None: none.

    The task and the lines that a patch does not add are the same for every policy and are not searched.
    """
    for trajectory in group.trajectories:
        for place, text in _visible_texts(trajectory):
            name = scrubber.find(text)
            if name is not None:
                return f"{trajectory.trajectory_id}: {place}", name
    return None


def _visible_texts(trajectory: Trajectory) -> Iterable[tuple[str, str]]:
    patch = parse_patch(trajectory.model_patch or "")
    for file in patch.files:
        if file.change in ("added", "renamed", "copied"):
            yield "name of a file", file.path
        for line in (line for hunk in file.hunks for line in hunk.lines):
            if line.marker == "+":
                yield "patch", line.text
    if not patch.files and trajectory.model_patch:
        yield from (("patch", line) for line in split_lines(trajectory.model_patch))
    yield "test output", trajectory.test_output or ""
    for number, message in enumerate(trajectory.messages, 1):
        yield f"message {number}", message.content
        yield f"message {number}", message.name or ""
        for call in message.tool_calls:
            yield f"message {number}", call.name
            yield f"message {number}", call.arguments


def _scrub_message(message: Message, scrubber: Scrubber) -> Message:
    calls = tuple(
        ToolCall(scrubber.scrub(one.name), scrubber.scrub(one.arguments)) for one in message.tool_calls
    )
    name = None if message.name is None else scrubber.scrub(message.name)
    return Message(message.role, scrubber.scrub(message.content), calls, name)


def _last_parts(name: str) -> Sequence[str]:
    """`org/model` and `runs/model.jsonl` are known by their last part too."""
    last = name.rstrip("/").rsplit("/", 1)[-1]
    stem = re.sub(r"(\.(jsonl|json|parquet|pq|gz|zst))+$", "", last)
    return (last, stem)


def _letters(name: str) -> str:
    return re.sub(r"[\W_]+", "", name)


def _pattern(name: str) -> str:
    words = [re.escape(word) for word in re.split(r"[\W_]+", name) if word]
    joined = r"[\W_]{0,3}".join(words)
    return rf"(?<![^\W_]){joined}(?![^\W_])" if len(_letters(name)) < _WORD_CHARS else joined
