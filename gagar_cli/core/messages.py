"""Message logs of every kind as canonical messages: plain dicts that JSON and Parquet can hold.

A canonical message has `role`, `content` (text), and where they are known `reasoning_content`, `name`, `tool_call_id`,
`tool_calls` (`id`, `name`, `arguments` as JSON text) and `extra`: JSON text of everything else, so that nothing is
lost. Parts without text (images, audio) become placeholders in the text and stay whole in `extra`.

This module reads chat logs: OpenAI chat, Anthropic blocks, ShareGPT (`from`/`value`), nebius (`text`/`system_prompt`).
Agents' event logs are in `messages_agents.py`, Responses items in `messages_responses.py`, text that a chat template
made in `messages_templates.py`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MessageRecord = dict[str, Any]

ROLES = {
    "ai": "assistant", "agent": "assistant", "gpt": "assistant", "model": "assistant", "bot": "assistant",
    "human": "user", "developer": "system",
    "function": "tool", "environment": "tool", "observation": "tool", "ipython": "tool", "tool_response": "tool",
}  # fmt: skip
_TEXT_KEYS = ("content", "text", "value", "system_prompt")
_REASONING_KEYS = ("reasoning_content", "reasoning")
_LIFTED = {"role", "from", "name", "tool_call_id", "tool_calls"}


def json_text(value: object) -> str:
    """A value as JSON text with sorted keys; the form in which arguments and leftovers are kept."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def message(role: str, content: str, **more: Any) -> MessageRecord:
    """A canonical message; what is None or empty among `more` is left out."""
    kept = {name: value for name, value in more.items() if value not in (None, "", [], {})}
    if "extra" in kept and not isinstance(kept["extra"], str):
        kept["extra"] = json_text(kept["extra"])
    return {"role": role, "content": content, **kept}


def tool_call(name: object, arguments: object, call_id: object = None) -> dict[str, str | None]:
    """A canonical tool call; arguments that are no text become JSON text."""
    text = arguments if isinstance(arguments, str) else json_text({} if arguments is None else arguments)
    return {
        "id": call_id if isinstance(call_id, str) else None,
        "name": str(name or "unknown"),
        "arguments": text,
    }


def chat_messages(entries: Iterable[object]) -> list[MessageRecord]:
    """Canonical messages of a chat log; results of tools inside a user message become messages of their own.

    >>> chat_messages([{"from": "gpt", "value": "hello"}])
    [{'role': 'assistant', 'content': 'hello'}]
    """
    messages: list[MessageRecord] = []
    for entry in entries:
        if isinstance(entry, Mapping):
            messages += _chat_message(entry)
        else:
            messages.append(message("unknown", entry if isinstance(entry, str) else json_text(entry)))
    return messages


def text_of(content: object) -> str:
    """The text of a content: as such, or of its parts, one a line; a part without text is named by its type."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text for text in map(_part_text, content) if text)
    return json_text(content)


def before_reply(messages: Sequence[object]) -> list[object]:
    """The messages before the first reply: the prompt."""
    for place, entry in enumerate(messages):
        role = entry.get("role", entry.get("from")) if isinstance(entry, Mapping) else None
        if role == "assistant" or ROLES.get(str(role)) == "assistant":
            return list(messages[:place])
    return list(messages)


def has_only_text(content: object) -> bool:
    """Whether `text_of` keeps all there is."""
    if isinstance(content, list):
        return all(isinstance(part, str) or _is_text_part(part) for part in content)
    return content is None or isinstance(content, str)


def _is_text_part(part: object) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("text"), str) and part.keys() <= {"type", "text"}


def _chat_message(entry: Mapping[str, Any]) -> list[MessageRecord]:
    role = str(entry.get("role") or entry.get("from") or "unknown").lower()
    content_key = next((key for key in _TEXT_KEYS if entry.get(key) is not None), None)
    content = entry.get(content_key) if content_key else None
    blocks = _Blocks(content if isinstance(content, list) else [])
    calls = [*_calls(entry), *blocks.calls]
    reasoning_key = next((key for key in _REASONING_KEYS if isinstance(entry.get(key), str)), None)
    reasoning = [entry[reasoning_key]] if reasoning_key else []
    used = {*_LIFTED, content_key, reasoning_key}
    earlier = _earlier_extra(entry)
    if earlier is not None:
        used.add("extra")
    left = {key: value for key, value in entry.items() if key not in used and value is not None}
    extra: dict[str, Any] = (earlier or {}) | left
    if isinstance(entry.get("function_call"), Mapping):
        extra.pop("function_call", None)
    if isinstance(content, list) and not has_only_text(content):
        extra["content"] = content
    name = entry.get("name")
    call_id = entry.get("tool_call_id")
    made = message(
        ROLES.get(role, role),
        text_of(blocks.others) if isinstance(content, list) else text_of(content),
        reasoning_content="\n".join([*reasoning, *blocks.reasoning]),
        name=name if isinstance(name, str) else None,
        tool_call_id=call_id if isinstance(call_id, str) else None,
        tool_calls=calls,
        extra=extra,
    )
    if blocks.results and not (blocks.others or calls):
        return blocks.results
    return [*blocks.results, made]


def _earlier_extra(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a canonical message has under `extra`: it must not be wrapped once more."""
    try:
        value = json.loads(entry["extra"]) if isinstance(entry.get("extra"), str) else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class _Blocks:
    """The parts of a content, sorted: Anthropic puts calls, results and reasoning among them."""

    def __init__(self, parts: Sequence[object]) -> None:
        self.calls: list[dict[str, str | None]] = []
        self.results: list[MessageRecord] = []
        self.reasoning: list[str] = []
        self.others: list[object] = []
        for part in parts:
            kind = part.get("type") if isinstance(part, Mapping) else None
            if isinstance(part, Mapping) and kind == "tool_use":
                self.calls.append(tool_call(part.get("name"), part.get("input"), part.get("id")))
            elif isinstance(part, Mapping) and kind == "tool_result":
                self.results.append(_tool_result(part))
            elif isinstance(part, Mapping) and kind in ("thinking", "reasoning"):
                self.reasoning.append(str(part.get("thinking") or part.get("text") or ""))
            else:
                self.others.append(part)


def _tool_result(part: Mapping[str, Any]) -> MessageRecord:
    call_id = part.get("tool_use_id")
    content = part.get("content")
    extra: dict[str, Any] = {"is_error": True} if part.get("is_error") else {}
    if not has_only_text(content):
        extra["content"] = content
    return message(
        "tool", text_of(content), tool_call_id=call_id if isinstance(call_id, str) else None, extra=extra
    )


def _calls(entry: Mapping[str, Any]) -> list[dict[str, str | None]]:
    calls = entry.get("tool_calls")
    if isinstance(calls, str):
        try:
            calls = json.loads(calls)
        except (ValueError, RecursionError):
            return [tool_call(None, calls)]
    listed = calls if isinstance(calls, list) else [] if calls is None else [calls]
    if isinstance(entry.get("function_call"), Mapping):
        listed = [*listed, entry["function_call"]]
    made = []
    for call in listed:
        if not isinstance(call, Mapping):
            made.append(tool_call(None, call))
            continue
        function = call.get("function")
        body = function if isinstance(function, Mapping) else call
        arguments = next(
            (body[key] for key in ("arguments", "input", "args") if body.get(key) is not None), None
        )
        name = body.get("name") or (function if isinstance(function, str) else None)
        made.append(tool_call(name, arguments, call.get("id")))
    return made


def _part_text(part: object) -> str:
    if not isinstance(part, Mapping):
        return text_of(part)
    text = next((part[key] for key in ("text", "content") if part.get(key) is not None), None)
    return text_of(text) if text is not None else f"[{part.get('type') or 'part without text'}]"
