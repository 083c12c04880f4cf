"""Facts built from small literal patches: `+added`, `-removed` and ` context` lines, as `view_patch` shows them."""

from collections.abc import Callable, Sequence

import pytest

from gagar_cli.grader.offline.blemishes import Blemish, Rule
from gagar_cli.grader.offline.facts import Candidate, Group, PatchedFile, ShownLine
from gagar_cli.grader.offline.patches import read_patch

START = 10


def show_file(text: str, path: str, name: str, change: str, start: int) -> str:
    lines = text.strip("\n").split("\n")
    old = new = start
    shown = []
    for line in lines:
        number = -old if line[0] == "-" else new
        shown.append(f"{name}:{path}:{number}│{line}")
        old += line[0] != "+"
        new += line[0] != "-"
    n_added, n_removed = (sum(line[0] == marker for line in lines) for marker in "+-")
    head = [
        f"{name}:{path}:0│{change} file +{n_added} -{n_removed}",
        f"@@ -{start},{old - start} +{start},{new - start} @@",
    ]
    return "\n".join([*head, *shown])


@pytest.fixture
def file_of() -> Callable[..., PatchedFile]:
    """A file of a patch from its hunk."""

    def build(
        text: str, path: str = "src/a.py", *, name: str = "c01", change: str = "modified", start: int = START
    ) -> PatchedFile:
        return read_patch([show_file(text, path, name, change, start)])[0]

    return build


@pytest.fixture
def candidate_of(file_of: Callable[..., PatchedFile]) -> Callable[..., Candidate]:
    """A candidate from the hunks of its files, by path."""

    def build(text: str | dict[str, str], name: str = "c01", **changes: object) -> Candidate:
        hunks = {"src/a.py": text} if isinstance(text, str) else text
        files = tuple(
            file_of(hunk, path.lstrip("!"), name=name, change="added" if path[0] == "!" else "modified")
            for path, hunk in hunks.items()
        )
        return Candidate(name, files=files, **changes)  # type: ignore[arg-type] # fields by name

    return build


@pytest.fixture
def find(candidate_of: Callable[..., Candidate]) -> Callable[..., Sequence[Blemish]]:
    """What a rule holds against the first patch, the others being its siblings'."""

    def run(
        rule: Rule, *patches: str | dict[str, str], statement: str = "", **facts: object
    ) -> Sequence[Blemish]:
        candidates = tuple(candidate_of(text, f"c{number:02}") for number, text in enumerate(patches, 1))
        return rule(candidates[0], Group(candidates, statement=statement, **facts))  # type: ignore[arg-type]

    return run


@pytest.fixture
def shown() -> Callable[[str, str], ShownLine]:
    """A line as a tool shows it."""

    def build(at: str, text: str) -> ShownLine:
        return ShownLine(at, text, number=int(at.rpartition(":")[2]))

    return build
