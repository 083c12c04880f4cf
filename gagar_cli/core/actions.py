"""What a turn did, in a few words: the commands it ran and the files it looked at or changed.

Agents act by tool calls, by calls written out as XML, or by a fenced block of shell commands. The words are taken from
whatever form it is; what is in no known form is shown as it stands.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gagar_cli.core.schema import ToolCall
from gagar_cli.core.text import count_lines, counted, fold_whitespace, shorten, split_lines

MAX_ACTION_CHARS = 110
_MAX_CALLS = 4
_MAX_REPLY_CHARS = 50_000
"""Of a reply without tool calls: so much of its end is searched for what it ran."""

_FENCE = "```"
_XML_OPENING = "<function="
_XML_CALL = re.compile(rf"{_XML_OPENING}[\w.-]{{1,60}}>")
_XML_VALUE = re.compile(r"<parameter=([\w.-]{1,60})>")
_CHANGES_DIRECTORY = re.compile(r"^cd [^\s;&|]{1,200} ?&& ?")
_EDIT_LINES = re.compile(r"^edit (\d{1,9}):(\d{1,9})$")
_COMMAND_KEYS = ("command", "cmd", "code", "script")
_PATH_KEYS = ("path", "file_path", "filePath", "filename", "file")
_OLD_KEYS = ("old_str", "old_string", "oldString", "search")
_NEW_KEYS = ("new_str", "new_string", "newString", "replace", "insert_text")
_WHOLE_KEYS = ("file_text", "content")
_VIEW_NAMES = {"view", "read", "read_file", "open", "view_file"}
_EDITOR_COMMANDS = {"view", "create", "str_replace", "insert", "undo_edit"}


def describe_action(reply: str, calls: Sequence[ToolCall]) -> str:
    """One line of at most `MAX_ACTION_CHARS` characters; of several calls the first ones and how many more."""
    actions = [_describe_call(call.name, _read_arguments(call.arguments)) for call in calls[: _MAX_CALLS + 1]]
    if not calls:
        actions = list(_written_actions(reply[-_MAX_REPLY_CHARS:]))
    if len(actions) > _MAX_CALLS:
        n_more = max(len(actions), len(calls)) - _MAX_CALLS
        actions = [*actions[:_MAX_CALLS], f"and {n_more} more"]
    each = MAX_ACTION_CHARS // max(1, min(len(actions), 2))
    text = "; ".join(shorten(action, each) for action in actions)
    return shorten(
        text or fold_whitespace(reply[: 4 * MAX_ACTION_CHARS]) or "(empty reply)", MAX_ACTION_CHARS
    )


def _written_actions(reply: str) -> Iterator[str]:
    """The calls that a reply writes out, or the last fenced block of it."""
    starts = [match.start() for match in _XML_CALL.finditer(reply)]
    if starts:
        for start, stop in itertools.pairwise([*starts, len(reply)]):
            name, _, values = reply[start + len(_XML_OPENING) : stop].partition(">")
            yield _describe_call(name, _xml_arguments(values))
        return
    end = reply.rfind(_FENCE)
    start = reply.rfind(_FENCE, 0, end) if end > 0 else -1
    if start >= 0:
        block = reply[start + len(_FENCE) : end]
        # The fence's own line names a language: a command there would have been on the next one.
        first, newline, rest = block.partition("\n")
        yield _describe_command(rest if newline and " " not in first.strip() else block)


def _xml_arguments(text: str) -> dict[str, Any]:
    values = {}
    for match in _XML_VALUE.finditer(text):
        end = text.find("</parameter>", match.end())
        values[match[1]] = text[match.end() : end if end >= 0 else len(text)]
    return values


def _read_arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _describe_call(name: str, arguments: Any) -> str:
    if not isinstance(arguments, Mapping):
        return f"{name} {fold_whitespace(str(arguments)[: 4 * MAX_ACTION_CHARS])}".rstrip()
    path = _first(arguments, _PATH_KEYS)
    editor = arguments.get("command")
    verb = editor if path and editor in _EDITOR_COMMANDS else name
    if path or _first(arguments, _OLD_KEYS) is not None:
        described = _describe_file_call(str(verb), path or "", arguments)
        if described:
            return described
    command = _first(arguments, _COMMAND_KEYS)
    if command is not None and not path:
        return _describe_command(command)
    values = " ".join(
        f"{key}={fold_whitespace(str(value)[: 4 * MAX_ACTION_CHARS])}" for key, value in arguments.items()
    )
    return f"{name} {values}".rstrip()


def _describe_file_call(verb: str, path: str, arguments: Mapping[str, Any]) -> str | None:
    """What a call does to one file; None where it is none of the known things."""
    old, new = _first(arguments, _OLD_KEYS), _first(arguments, _NEW_KEYS)
    whole = _first(arguments, _WHOLE_KEYS)
    if old is not None:
        return f"edit {path} (-{count_lines(old)} +{count_lines(new or '')} lines)"
    if verb == "insert":
        return f"edit {path}:{arguments.get('insert_line', '?')} (+{counted(count_lines(new or ''), 'line')})"
    if whole is not None:
        return f"create {path} ({counted(count_lines(whole), 'line')})"
    if verb in _VIEW_NAMES:
        span = arguments.get("view_range") or arguments.get("line_number") or ""
        return f"view {path} {span if isinstance(span, (int, str, list)) else ''}".rstrip()
    return f"{verb} {path}" if verb in ("create", "undo_edit") else None


def _describe_command(text: str) -> str:
    """A command's first line, and how many follow."""
    lines = split_lines(text.strip())
    if not lines:
        return "(empty command)"
    match = _EDIT_LINES.match(lines[0].strip())
    if match:
        n_lines = sum(1 for line in lines[1:] if line.strip() != "end_of_edit")
        return f"edit lines {match[1]}-{match[2]} ({counted(n_lines, 'line')})"
    if text.startswith("create ") and len(lines) == 1:
        return text.strip()
    mark = "" if lines[0].startswith("<") else "$ "
    first = mark + fold_whitespace(_CHANGES_DIRECTORY.sub("", lines[0][: 4 * MAX_ACTION_CHARS].strip()))
    if len(lines) == 1:
        return first
    return f"{shorten(first, MAX_ACTION_CHARS - 20)} … (+{counted(len(lines) - 1, 'line')})"


def _first(arguments: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((value for key in keys if isinstance(value := arguments.get(key), str)), None)
