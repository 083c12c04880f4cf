"""From a canonical record to a task and a trajectory: the heavy fields, only when they are asked for.

Messages come as the chat APIs write them (content as text or as parts, tool calls as objects or as JSON text), as
older agents wrote them (`from`/`value`, `human`/`ai`, `text`), or all of it as JSON text in one column. Whatever has
no text, such as an image, is named by its type: nothing vanishes without a trace.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gagar_cli.core.schema import Message, Task, ToolCall, Trajectory
from gagar_cli.errors import InputError
from gagar_cli.io.jsonl import show_value
from gagar_cli.io.packed_logs import LogStore, join_logs
from gagar_cli.io.records import MISSING, TASK_FIELDS, Fields, from_json_text

_ROLES = {
    "ai": "assistant", "agent": "assistant", "gpt": "assistant", "model": "assistant",
    "human": "user", "developer": "system",
    "function": "tool", "environment": "tool", "observation": "tool", "ipython": "tool",
}  # fmt: skip
_CONTENT_KEYS = ("content", "text", "value", "system_prompt")
_REASONING_KEYS = ("reasoning_content", "reasoning", "thought")


def read_task(record: Mapping[str, object], fields: Fields) -> Task:
    """What the record says about its task.

    Raises:
        InputError: a field is not text.
    """
    return Task(**{name: _text(record, fields, name) for name in TASK_FIELDS})


def read_trajectory(
    record: Mapping[str, object],
    fields: Fields,
    *,
    trajectory_id: str,
    reward: float,
    passed: bool,
    where: str,
    store: LogStore | None = None,
) -> Trajectory:
    """The trajectory of one record; what the index already settled comes in.

    A long log goes to the `store`; without one it stays in memory.

    Raises:
        InputError: a heavy field has a wrong type.
        OutputError: there is no space for a long log.
    """
    is_truncated = fields.find(record, "is_truncated")
    if is_truncated is not MISSING and not isinstance(is_truncated, bool | None):
        raise InputError(f"is_truncated is {show_value(is_truncated)}, expected true, false or null")
    trajectory = Trajectory(
        trajectory_id=trajectory_id,
        reward=reward,
        passed=passed,
        messages=read_messages(fields.find(record, "messages")),
        model_patch=_text(record, fields, "model_patch"),
        test_output=_text(record, fields, "test_output"),
        exit_status=_text(record, fields, "exit_status", may_be_number=True),
        is_truncated=is_truncated if isinstance(is_truncated, bool) else None,
        where=where,
    )
    return trajectory if store is None else store.packed(trajectory)


def join_segments(first: Trajectory, parts: Sequence[Trajectory]) -> Trajectory:
    """`first` with what all its segments hold, given in order: logs follow each other, the last known result stands."""

    def last(name: str) -> object:
        known = [value for part in parts if (value := getattr(part, name)) is not None]
        return known[-1] if known else None

    short = {name: last(name) for name in ("model_patch", "exit_status", "is_truncated")}
    return join_logs(replace(first, messages=(), test_output=None, **short), parts)  # type: ignore[arg-type]


def read_messages(value: object) -> tuple[Message, ...]:
    """A message log from a list of objects, or from JSON text of one; empty where there is none.

    Raises:
        InputError: not a list of objects.
    """
    if value is MISSING or value is None or value == "":
        return ()
    entries = from_json_text(value) if isinstance(value, str) else value
    if not isinstance(entries, list):
        raise InputError(f"messages is {show_value(value)}, expected a list of messages")
    messages = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            raise InputError(f"messages[{index}] is {show_value(entry)}, expected an object")
        messages.append(_message(entry))
    return tuple(messages)


def _message(entry: Mapping[str, object]) -> Message:
    role = str(_first(entry, ("role", "from")) or "unknown")
    name = entry.get("name")
    content = _content(_first(entry, _CONTENT_KEYS))
    return Message(
        role=_ROLES.get(role.lower(), role.lower()),
        content=content or _content(_first(entry, _REASONING_KEYS)),
        tool_calls=tuple(_tool_calls(entry)),
        name=name if isinstance(name, str) else None,
    )


def _first(entry: Mapping[str, object], keys: Sequence[str]) -> object:
    # No generator: a dump has millions of messages, and each is asked several times.
    for key in keys:
        if (value := entry.get(key)) is not None:
            return value
    return None


def _content(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_part(part) for part in value)
    return _json_text(value)


def _part(part: object) -> str:
    if not isinstance(part, Mapping):
        return _content(part)
    text = _first(part, ("text", "content", "thinking"))
    return _content(text) if text is not None else f"[{part.get('type') or 'part without text'}]"


def _tool_calls(entry: Mapping[str, object]) -> Iterator[ToolCall]:
    calls = entry.get("tool_calls")
    if isinstance(calls, str):
        calls = from_json_text(calls)
    if not isinstance(calls, list):
        calls = [] if calls is None else [calls]
    content = entry.get("content")
    parts = content if isinstance(content, list) else []
    used = [part for part in parts if isinstance(part, Mapping) and part.get("type") == "tool_use"]
    older = [entry["function_call"]] if entry.get("function_call") else []
    for call in [*calls, *used, *older]:
        if isinstance(call, str):
            call = from_json_text(call)
        if not isinstance(call, Mapping):
            yield ToolCall("unknown", _content(call))
            continue
        function = call.get("function")
        body = function if isinstance(function, Mapping) else call
        name = body.get("name") or (function if isinstance(function, str) else None) or call.get("name")
        arguments = _first(body, ("arguments", "input", "args"))
        yield ToolCall(
            str(name or "unknown"), arguments if isinstance(arguments, str) else _json_text(arguments or {})
        )


def _json_text(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _text(
    record: Mapping[str, object], fields: Fields, name: str, *, may_be_number: bool = False
) -> str | None:
    value = fields.find(record, name)
    if value is None or value is MISSING:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and (may_be_number or name == "instance_id"):
        return str(value)
    if not isinstance(value, str):
        raise InputError(f"{name} is {show_value(value)}, expected text or null")
    return value
