"""A conversation so far → the facts in it.

The endpoint keeps no state: each request carries the whole conversation, and the tool results in it are read anew.
Lines with `│` are untrusted text behind a coordinate; only lines without it are the workspace's own words. A text
that imitates those therefore changes nothing.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gagar_cli.grader.offline.facts import Candidate, Execution, Group, Lead, PatchState, ShownLine
from gagar_cli.grader.offline.patches import read_patch

SEPARATOR = "│"
_MORE = re.compile(r"^more: call again with start=(\d+)\s*$")
_MEMBER = re.compile(
    r"^(?P<id>[cf]\d+) patch: (?P<patch>[^|]*)\| turns: (?P<turns>[^|]*)\| test output: (?P<output>[^|]*)"
    r"(?:\| identical to: (?P<twins>.*))?$"
)
_LEAD = re.compile(r"^\s+(?P<id>c\d+) turn (?P<turn>\d+) (?P<kind>[\w-]+)$")
_EXIT = re.compile(r"^c\d+:exec:\d+ exit (-?\d+)")
_NUMBER = re.compile(r"\d[\d,]*")


class Exchange(NamedTuple):
    """One tool call and its result."""

    name: str
    arguments: Mapping[str, Any]
    result: str

    @property
    def next_start(self) -> int | None:
        """Where the next page starts; None on the last one."""
        for line in reversed(self.result.splitlines()[-3:]):
            if match := _MORE.match(line):
                return int(match[1])
        return None


def read_exchanges(messages: Sequence[Mapping[str, Any]]) -> tuple[Exchange, ...]:
    """The tool calls of a conversation that have been answered, in order."""
    calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
    exchanges = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            function = call["function"]
            calls[call["id"]] = (function["name"], _read_arguments(function.get("arguments")))
        if message.get("role") == "tool" and message.get("tool_call_id") in calls:
            name, arguments = calls[message["tool_call_id"]]
            exchanges.append(Exchange(name, arguments, read_content(message.get("content"))))
    return tuple(exchanges)


def read_material(messages: Sequence[Mapping[str, Any]]) -> tuple[Exchange, ...]:
    """The parts of a first message that holds everything, as if tools had been asked for them.

    A part starts with a line such as `## view_patch c01`; untrusted lines have a coordinate before anything of theirs.
    """
    opening = next((message for message in messages if message.get("role") == "user"), {})
    parts: list[tuple[str, list[str]]] = []
    for line in read_content(opening.get("content")).split("\n"):
        if line.startswith("## ") and SEPARATOR not in line:
            parts.append((line[3:], []))
        elif parts:
            parts[-1][1].append(line)
    exchanges = []
    for title, lines in parts:
        name, _, candidate = title.partition(" ")
        arguments = {"candidate": candidate} if candidate else {}
        exchanges.append(Exchange(name, arguments, "\n".join(lines)))
    return tuple(exchanges)


def read_content(content: Any) -> str:
    """The text of a message's content, whether it is a string or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def _read_arguments(text: Any) -> Mapping[str, Any]:
    try:
        arguments = json.loads(text) if isinstance(text, str) and text else text
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def read_line(line: str) -> ShownLine | None:
    """A line behind a coordinate; None for the workspace's own words."""
    at, separator, text = line.partition(SEPARATOR)
    if not separator:
        return None
    tail = at.rsplit(":", 1)[-1].lstrip("-")
    return ShownLine(at.strip(), text, number=int(tail) if tail.isdecimal() else 0)


def shown_lines(text: str) -> tuple[ShownLine, ...]:
    """All lines behind coordinates."""
    return tuple(shown for line in text.split("\n") if (shown := read_line(line)))


def read_group(exchanges: Iterable[Exchange]) -> Group:
    """The facts that these tool results hold."""
    by_tool: dict[str, list[Exchange]] = defaultdict(list)
    for exchange in exchanges:
        if not exchange.result.startswith("error:"):
            by_tool[exchange.name].append(exchange)
    overview = [line for exchange in by_tool["overview"] for line in exchange.result.split("\n")]
    own_words = [line for line in overview if SEPARATOR not in line]
    return Group(
        candidates=_read_candidates(own_words, by_tool),
        statement=_read_statement(overview),
        has_repository="repository: available" in {line.strip() for line in own_words},
        can_run=any(re.match(r"run_check: (?!not available)", line) for line in own_words),
        names_tests=any(line.startswith(f"tests{SEPARATOR}") for line in overview),
        leads=tuple(
            Lead(match["id"], int(match["turn"]), match["kind"])
            for line in overview
            if (match := _LEAD.match(line.partition(SEPARATOR)[0])) and SEPARATOR in line
        ),
        searches=_read_searches(by_tool["search"]),
    )


def _read_statement(overview: Iterable[str]) -> str:
    lines = (read_line(line) for line in overview)
    return "\n".join(line.text for line in lines if line and line.at.startswith("task:"))


def _read_searches(exchanges: Iterable[Exchange]) -> dict[tuple[str, str, str], tuple[ShownLine, ...]]:
    found = {}
    for exchange in exchanges:
        arguments = exchange.arguments
        key = (str(arguments.get("text")), str(arguments.get("where")), str(arguments.get("candidate") or ""))
        found[key] = shown_lines(exchange.result)
    return found


def _read_candidates(
    own_words: Iterable[str], by_tool: Mapping[str, Sequence[Exchange]]
) -> tuple[Candidate, ...]:
    members = [match for line in own_words if (match := _MEMBER.match(line)) and match["id"].startswith("c")]
    pages: dict[str, list[str]] = defaultdict(list)
    for exchange in by_tool.get("view_patch", ()):
        pages[str(exchange.arguments.get("candidate"))].append(exchange.result)
    patches = {name: read_patch(results) for name, results in pages.items()}
    digests, turns = _read_turns(by_tool)
    executions = _read_executions(by_tool.get("run_check", ()))
    # The overview names the first of identical patches only: `identical to` is made mutual here.
    scored_as = {match["id"]: _first_id(match["twins"]) or match["id"] for match in members}
    same_patch: dict[str, list[str]] = defaultdict(list)
    for name, first in scored_as.items():
        same_patch[first].append(name)
    candidates = []
    for match in members:
        name = match["id"]
        twins = tuple(other for other in same_patch[scored_as[name]] if other != name)
        files = patches.get(name) or next(
            (_as_twin(patches[twin], name) for twin in twins if twin in patches), ()
        )
        candidates.append(
            Candidate(
                id=name,
                patch_state=_patch_state(match["patch"]),
                n_turns=_first_number(match["turns"]),
                n_output_lines=_first_number(match["output"]),
                twins=twins,
                files=files,
                digests=tuple(digests[name]),
                turns={turn: tuple(lines) for turn, lines in turns[name].items()},
                execution=executions.get(name),
            )
        )
    return tuple(candidates)


def _as_twin(files: Sequence[Any], name: str) -> tuple[Any, ...]:
    """A byte-identical patch as it would be shown for the twin: only the id in the coordinates differs."""

    def renamed(line: ShownLine) -> ShownLine:
        return line._replace(at=f"{name}:{line.at.partition(':')[2]}")

    return tuple(
        file._replace(
            hunks=tuple(hunk._replace(lines=tuple(map(renamed, hunk.lines))) for hunk in file.hunks)
        )
        for file in files
    )


def _patch_state(text: str) -> PatchState:
    word = text.partition(",")[0].strip()
    if word in ("unknown", "unreadable"):
        return "unknown"
    return "empty" if word == "empty" else "known"


def _first_id(text: str | None) -> str | None:
    match = re.search(r"c\d+", text or "")
    return match[0] if match else None


def _first_number(text: str) -> int:
    match = _NUMBER.search(text)
    return int(match[0].replace(",", "")) if match else 0


def _read_turns(
    by_tool: Mapping[str, Sequence[Exchange]],
) -> tuple[dict[str, list[ShownLine]], dict[str, dict[int, list[ShownLine]]]]:
    digests: dict[str, list[ShownLine]] = defaultdict(list)
    turns: dict[str, dict[int, list[ShownLine]]] = defaultdict(lambda: defaultdict(list))
    for exchange in by_tool.get("list_turns", ()):
        for line in shown_lines(exchange.result):
            digests[line.at.partition(":")[0]].append(line)
    for exchange in by_tool.get("view_turns", ()):
        for line in shown_lines(exchange.result):
            if match := re.match(r"(c\d+):turn:(\d+):\d+$", line.at):
                turns[match[1]][int(match[2])].append(line)
    return digests, turns


def _read_executions(exchanges: Iterable[Exchange]) -> dict[str, Execution]:
    executions = {}
    for exchange in exchanges:
        match = next((match for line in exchange.result.split("\n") if (match := _EXIT.match(line))), None)
        if match:
            executions[str(exchange.arguments.get("candidate"))] = Execution(
                int(match[1]), shown_lines(exchange.result)
            )
    return executions
