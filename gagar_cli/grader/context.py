"""A conversation kept inside the model's window: old tool results give way to a line that says how to get them back.

Only tool results are ever replaced: messages of role `tool`, and in the text protocols user messages whose content
starts with `[result N name]` (one message may hold several results, each under such a line). System prompt, the
grader's own replies and what was said about a submission stay, and so do the results of the last replies. Of the first
overview, which holds the task, the attempts' lines and the statement stay, as far as a share of the budget goes.

What is replaced is decided by going through the conversation as it grew: before each reply, what is over the budget
is brought down well below it, oldest results first. So the messages of one call start with those of the call before,
but for the rare calls at which a batch is replaced, and an endpoint's prefix cache keeps hitting. It holds whether the
whole conversation is given each time or what came back last time with the new messages behind it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gagar_cli.core.text import shorten
from gagar_cli.grader import wording
from gagar_cli.grader.pages import GUTTER
from gagar_cli.grader.tool_schemas import SUBMIT
from gagar_cli.grader.views import PROBLEM_STATEMENT, TOUCHED_FILES

KEEP_REPLIES = 2
"""The results of so many last replies are replaced only where the budget cannot be met otherwise."""
LOW_WATER = 0.6
"""Share of the budget that is left after a batch: the next ones fit without touching the prefix again."""
MIN_STUBBED_CHARS = 600
"""Shorter results (errors, hints) are not worth a stub."""

_ARGUMENT_CHARS = 300
_TASK_SHARE = 8
"""One part in so many of the budget is what stays of the overview, within these bounds."""
_MIN_TASK_CHARS, _MAX_TASK_CHARS = 1_000, 8_000
_OVERVIEW = "overview"
_RESULT_LINE = re.compile(r"^\[result \d+ (\w+)[^\n]*\]$", re.MULTILINE)
_OUTPUT_LINE = re.compile(r"[cf]\d+:exec:\d+:\d+│|no output$")
_MAX_OWN_LINES = 40
_EXECUTION = re.compile(r"[cf]\d+:exec:\d+ [^│\n]*")


def fit_messages(messages: Sequence[Mapping[str, Any]], max_chars: int) -> list[dict[str, Any]]:
    """The messages with as many tool results replaced by stubs as the budget asks for; every message stays in its place.

    `max_chars` bounds the characters of all texts in the messages (`count_chars`). Where what may not be replaced is
    larger than that by itself, the result is larger too. A larger budget than before does not bring results back when
    the last fitted messages are given.
    """
    fitted = [dict(message) for message in messages]
    calls = _calls_by_id(messages)
    sizes = [count_chars(message) for message in fitted]
    reply_places = [place for place, message in enumerate(fitted) if message.get("role") == "assistant"]
    task_place = next((place for place, message in enumerate(fitted) if _shows_task(message, calls)), None)
    task_chars = max(_MIN_TASK_CHARS, min(_MAX_TASK_CHARS, max_chars // _TASK_SHARE))
    total = seen = 0
    for end in [*reply_places, len(fitted)]:
        total += sum(sizes[seen:end])
        seen = end
        if total <= max_chars:
            continue
        for place in _replaceable(fitted, reply_places, end):
            if total <= LOW_WATER * max_chars or (
                total <= max_chars and _is_recent(place, reply_places, end)
            ):
                break
            fitted[place] = _stubbed(fitted[place], calls, task_chars if place == task_place else 0)
            size = count_chars(fitted[place])
            total += size - sizes[place]
            sizes[place] = size
    return fitted


def count_chars(value: Any) -> int:
    """The characters of all texts in a message, whatever its form."""
    if isinstance(value, str):
        return len(value)
    # The usual forms first: to ask an abstract class takes longer than to count.
    if isinstance(value, (dict, Mapping)):
        return sum(map(count_chars, value.values()))
    if isinstance(value, (list, Sequence)):
        return sum(map(count_chars, value))
    return 0


def _replaceable(
    messages: Sequence[Mapping[str, Any]], reply_places: Sequence[int], end: int
) -> Iterator[int]:
    """Places of results before `end`, in the order in which they give way.

    Old ones first. Of the last replies' results the first go last: a reply that asked for more than fits is at least
    answered in part.
    """
    results = [place for place in range(end) if _is_result(messages[place])]
    yield from (place for place in results if not _is_recent(place, reply_places, end))
    yield from reversed([place for place in results if _is_recent(place, reply_places, end)])


def _is_recent(place: int, reply_places: Sequence[int], end: int) -> bool:
    last = [reply for reply in reply_places if reply < end][-KEEP_REPLIES:]
    return bool(last) and place > last[0]


def _is_result(message: Mapping[str, Any]) -> bool:
    if message.get("role") == "tool":
        return True
    content = message.get("content")
    if message.get("role") != "user" or not isinstance(content, str):
        return False
    return _RESULT_LINE.match(content) is not None


def _shows_task(message: Mapping[str, Any], calls: Mapping[str, tuple[str, str]]) -> bool:
    if message.get("role") == "tool":
        return calls.get(str(message.get("tool_call_id")), (message.get("name"), ""))[0] == _OVERVIEW
    return _is_result(message) and _OVERVIEW in _RESULT_LINE.findall(message["content"])


def _stubbed(
    message: dict[str, Any], calls: Mapping[str, tuple[str, str]], task_chars: int
) -> dict[str, Any]:
    """The message with what can be asked for again left out; itself where nothing is gained."""
    content = _text_of(message.get("content"))
    if message.get("role") == "tool":
        unknown = (str(message.get("name") or ""), None)
        name, arguments = calls.get(str(message.get("tool_call_id")), unknown)
        return {**message, "content": _stub(content, name, arguments, task_chars)}
    parts, is_changed = [], False
    starts = [match.start() for match in _RESULT_LINE.finditer(content)]
    for start, stop in zip(starts, [*starts[1:], len(content)], strict=True):
        head, _, body = content[start:stop].rstrip("\n").partition("\n")
        match = _RESULT_LINE.match(head)
        stub = _stub(body, match[1] if match else "", None, task_chars)
        is_changed = is_changed or stub != body
        parts.append(f"{head}\n{stub}")
    return {**message, "content": "\n".join(parts)} if is_changed else message


def _stub(content: str, name: str, arguments: str | None, task_chars: int) -> str:
    """One line in place of a result: how large it was and which call shows it again."""
    if len(content) < MIN_STUBBED_CHARS or name == SUBMIT or content.startswith(wording.LEFT_OUT):
        return content
    execution = _EXECUTION.match(content) if name == "run_check" else None
    if execution:
        # Running again costs a sandbox; what was printed is kept.
        owner, _, number = execution[0].split()[0].split(":")
        again = f'view_output(candidate="{owner}", number={number})'
        stub = wording.OUTPUT_LEFT_OUT.format(head=execution[0], call=again)
        return "\n".join([stub, *_own_words(content.split("\n")[1 : 1 + _MAX_OWN_LINES])])
    call = wording.SAME_CALL if arguments is None else f"{name}({shorten(arguments, _ARGUMENT_CHARS)})"
    stub = wording.RESULT_LEFT_OUT.format(n=len(content), call=call)
    if name != _OVERVIEW or not task_chars:
        return stub
    shorter = "\n".join([stub, *_told_of_task(content.split("\n"), task_chars)])
    return shorter if len(shorter) < len(content) else content


def _told_of_task(lines: Sequence[str], max_chars: int) -> Iterator[str]:
    """Of an overview: what the attempts are, and the problem statement, as far as there is room."""
    is_wanted = True
    for line in lines:
        # Words of others stand behind a coordinate: none of their lines can be one of these.
        is_wanted = (is_wanted and line != TOUCHED_FILES) or line == PROBLEM_STATEMENT
        if not is_wanted:
            continue
        max_chars -= len(line) + 1
        if max_chars < 0:
            yield line[: max(0, max_chars + len(line) + 1)] + "…"
            return
        yield line


def _own_words(lines: Sequence[str]) -> Iterator[str]:
    """What the tool itself says above a command's output, such as where two runs disagree: no other call says it."""
    for line in lines:
        if _OUTPUT_LINE.match(line):
            return
        if GUTTER not in line:
            yield line


def _calls_by_id(messages: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """Name and readable arguments of every native tool call."""
    calls = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            calls[str(call.get("id"))] = (str(function.get("name")), _readable(function.get("arguments")))
    return calls


def _readable(arguments: Any) -> str:
    """A call's arguments as `name=value` pairs, or as they are where they are no JSON object."""
    try:
        values = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return str(arguments)
    if not isinstance(values, dict):
        return str(arguments)
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items())


def _text_of(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""
