"""What names a policy is taken out before a judge sees anything, and looked for again before the first call.

A name is matched whatever its case, separators and disguises (`my-model_v2`, `My Model V2`, `MyModel%20v2`, full-width
or look-alike letters), and not inside a longer word when it is short. Words that only hint at a policy (the family of
a model, a label on the command line) are taken out of prose, not of code, which may need them. Lines that a patch
removes or leaves as they are come from the repository, which is the same for every policy: they are not touched, so
that the patch still applies.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gagar_cli.core.patch import PatchFile, parse_patch
from gagar_cli.core.schema import Group, Message, ToolCall, Trajectory
from gagar_cli.core.text import split_lines

MIN_NAME_CHARS = 3
"""Shorter names would match everywhere."""
_WORD_CHARS = 6
"""Names shorter than this only count as words of their own."""
REPLACEMENT = "policy"

_SEPARATOR = r"(?:[\W_]|%[0-9a-f]{2}|&#?\w{1,8};|</?\w{1,10}>|\\u[0-9a-f]{4}|\\[nt])"
"""What may stand between the words of a name: punctuation, or its form in a URL, in HTML or in JSON."""
_WORDS = re.compile(r"[^\W\d_]*?[^\W\d_A-Z](?=[A-Z])|[^\W\d_]+|\d+")
_LOOK_ALIKES = str.maketrans("авеікмнорстухѕјԁԛԝαειοκνρτυχ", "abeikmhopctyxsjdqwaeiokvptux")
"""Small Cyrillic and Greek letters, and the Latin ones for which a reader takes them."""
_HUNK = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_NAMING = ("diff --git ", "--- ", "+++ ", "rename ", "copy ", "Binary files ")
_GIT_HEADERS = (
    *_NAMING,
    "index ",
    "old mode ",
    "new mode ",
    "deleted file ",
    "new file ",
    "similarity ",
    "dissimil",
)

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "claude": ("claude", "anthropic"),
    "gpt": ("gpt", "chatgpt", "openai"),
    "gemini": ("gemini", "deepmind"),
    "qwen": ("qwen", "qwq", "tongyi"),
    "deepseek": ("deepseek",),
    "llama": ("llama",),
    "mistral": ("mistral", "devstral", "codestral"),
    "kimi": ("kimi", "moonshot"),
    "glm": ("glm", "zhipu"),
    "grok": ("grok",),
    "mimo": ("mimo", "xiaomi"),
    "minimax": ("minimax",),
}
"""Family of models to the words by which its members, or who makes them, are known."""


def families_of(name: str) -> set[str]:
    """The families that a model's name tells of.

    >>> families_of("openrouter/anthropic/claude-3-opus")
    {'claude'}
    """
    words = {word.lower() for word in _WORDS.findall(name)}
    return {family for family, known in FAMILIES.items() if words & set(known)}


class Scrubber:
    """Finds and replaces the names of policies."""

    def __init__(self, names: Iterable[str], hints: Iterable[str] = ()) -> None:
        """`names` are taken out of everything, `hints` of prose only; the families of both are hints too."""
        given, hinted = list(names), list(hints)
        families = {word for one in (*given, *hinted) for of in families_of(one) for word in FAMILIES[of]}
        self.names = _usable(part for name in given for part in (name, *_last_parts(name)))
        self.hints = tuple(one for one in _usable((*hinted, *families)) if one not in self.names)
        naming = [(name, len(_letters(name)) < _WORD_CHARS) for name in self.names]
        self._in_code = _any_of(naming)
        self._in_prose = _any_of([*naming, *((hint, True) for hint in self.hints)])

    def scrub(self, text: str, *, is_code: bool = False) -> str:
        """The text with every name replaced."""
        pattern = self._in_code if is_code else self._in_prose
        if pattern is None:
            return text
        scrubbed = pattern.sub(REPLACEMENT, text)
        if scrubbed.isascii():
            return scrubbed
        # A line in which a name is disguised is told plainly; every other keeps its characters.
        lines = scrubbed.split("\n")
        return "\n".join(
            pattern.sub(REPLACEMENT, plain) if pattern.search(plain := _undisguised(line)) else line
            for line in lines
        )

    def find(self, text: str, *, is_code: bool = False) -> str | None:
        """The first name in a text, as it stands there."""
        pattern = self._in_code if is_code else self._in_prose
        if pattern is None:
            return None
        found = pattern.search(text) or (None if text.isascii() else pattern.search(_undisguised(text)))
        return found.group() if found else None

    def scrub_patch(self, patch: str) -> str:
        """A patch whose added lines, text around its sections and names of new files hold no name."""
        if self.find(patch) is None:
            return patch
        files = parse_patch(patch).files
        made = _made_paths(files)
        starts = {file.line: file for file in files}
        section: PatchFile | None = None
        n_old = n_new = 0
        is_binary = False
        lines = []
        for number, line in enumerate(patch.split("\n"), 1):
            if n_old > 0 or n_new > 0:
                n_old -= line[:1] in (" ", "-", "")
                n_new -= line[:1] in (" ", "+", "")
                lines.append("+" + self.scrub(line[1:], is_code=True) if line.startswith("+") else line)
                continue
            if number in starts:
                section, is_binary = starts[number], False
            is_binary = is_binary or line.startswith("GIT binary patch")
            if header := _HUNK.match(line):
                n_old, n_new = (1 if count is None else int(count) for count in header.groups())
            elif section is not None and section.path in made and line.startswith(_NAMING):
                line = self._scrub_header(line, section)
            elif not is_binary and not line.startswith(_GIT_HEADERS):
                # Not git's: a mail's or a commit's, or what no reader of patches understands.
                line = self.scrub(line)
            lines.append(line)
        return "\n".join(lines)

    def _scrub_header(self, line: str, section: PatchFile) -> str:
        path = section.path
        clean = self.scrub(path, is_code=True)
        if section.change in ("renamed", "copied"):
            # The old name is the repository's and stays.
            before, found, after = line.rpartition(path)
            return before + clean + after if found else line
        if path in line:
            return line.replace(path, clean)
        return self.scrub(line, is_code=True)


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
        for place, text, is_code in _visible_texts(trajectory):
            name = scrubber.find(text, is_code=is_code)
            if name is not None:
                return f"{trajectory.trajectory_id}: {place}", name
    return None


def _visible_texts(trajectory: Trajectory) -> Iterable[tuple[str, str, bool]]:
    """(place, text, whether it is code) of everything that the workspace shows of an attempt."""
    patch = parse_patch(trajectory.model_patch or "")
    made = _made_paths(patch.files)
    for file in patch.files:
        if file.path in made:
            yield "name of a file", file.path, True
        for line in (line for hunk in file.hunks for line in hunk.lines):
            if line.marker == "+":
                yield "patch", line.text, True
    for problem in patch.problems:
        yield "patch", str(problem), True
    if not patch.files and trajectory.model_patch:
        yield from (("patch", line, True) for line in split_lines(trajectory.model_patch))
    yield "test output", trajectory.test_output or "", False
    for number, message in enumerate(trajectory.messages, 1):
        yield f"message {number}", message.content, False
        yield f"message {number}", message.name or "", False
        for call in message.tool_calls:
            yield f"message {number}", call.name, False
            yield f"message {number}", call.arguments, False


def _scrub_message(message: Message, scrubber: Scrubber) -> Message:
    calls = tuple(
        ToolCall(scrubber.scrub(one.name), scrubber.scrub(one.arguments)) for one in message.tool_calls
    )
    name = None if message.name is None else scrubber.scrub(message.name)
    return Message(message.role, scrubber.scrub(message.content), calls, name)


def _made_paths(files: Sequence[PatchFile]) -> set[str]:
    """The paths that the patch itself brings into being."""
    return {file.path for file in files if file.change in ("added", "renamed", "copied")}


def _usable(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({one for one in names if len(_letters(one)) >= MIN_NAME_CHARS}))


def _last_parts(name: str) -> Sequence[str]:
    """`org/model` and `runs/model.jsonl` are known by their last part too."""
    last = name.rstrip("/").rsplit("/", 1)[-1]
    stem = re.sub(r"(\.(jsonl|json|parquet|pq|gz|zst))+$", "", last)
    return (last, stem)


def _letters(name: str) -> str:
    return re.sub(r"[\W_]+", "", name)


def _undisguised(text: str) -> str:
    """The text as a reader takes it: compatibility forms, look-alikes and marks made plain, invisible characters out."""
    folded = unicodedata.normalize("NFKD", text)
    kept = "".join(char for char in folded if unicodedata.category(char) not in ("Cf", "Mn"))
    return "".join(char.translate(_LOOK_ALIKES) if char.islower() else char for char in kept.lower())


def _any_of(names: Sequence[tuple[str, bool]]) -> re.Pattern[str] | None:
    alternatives = [_pattern(name, is_word=is_word) for name, is_word in sorted(names, key=_longest_first)]
    return re.compile("|".join(alternatives), re.IGNORECASE) if alternatives else None


def _longest_first(name: tuple[str, bool]) -> int:
    return -len(name[0])


def _pattern(name: str, *, is_word: bool) -> str:
    chunks = [
        "[\\W_]?".join(re.escape(word) for word in _WORDS.findall(chunk))
        for chunk in re.split(r"[\W_]+", name)
        if chunk
    ]
    joined = f"{_SEPARATOR}{{0,3}}".join(chunks)
    return rf"(?<![^\W_]){joined}(?![^\W_])" if is_word else joined
