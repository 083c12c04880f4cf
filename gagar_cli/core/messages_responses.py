"""Items of the OpenAI Responses API as canonical messages.

A `function_call` joins the assistant message before it, so that a reply and its calls stay one turn; `reasoning` is
kept for the message that follows; a `function_call_output` is a tool message.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gagar_cli.core.messages import (
    ROLES,
    MessageRecord,
    has_only_text,
    json_text,
    message,
    text_of,
    tool_call,
)


def responses_messages(items: object) -> list[MessageRecord]:
    """Canonical messages of `input` or `output` items; text alone is one user message."""
    if isinstance(items, str):
        return [message("user", items)]
    if not isinstance(items, Iterable):
        return []
    messages: list[MessageRecord] = []
    reasoning: list[str] = []
    for item in items:
        if not isinstance(item, Mapping):
            messages.append(message("unknown", text_of(item)))
            continue
        kind = str(item.get("type") or "message")
        if kind == "reasoning":
            texts = [text_of(item.get(key)) for key in ("summary", "content") if item.get(key)]
            reasoning += [text for text in texts if text]
        elif kind == "message":
            made = _said(item)
            if reasoning and made["role"] == "assistant":
                made["reasoning_content"] = "\n".join(reasoning)
                reasoning = []
            messages.append(made)
        elif kind == "function_call":
            call = tool_call(item.get("name"), item.get("arguments"), item.get("call_id"))
            if not messages or messages[-1]["role"] != "assistant" or reasoning:
                messages.append(message("assistant", "", reasoning_content="\n".join(reasoning)))
                reasoning = []
            messages[-1].setdefault("tool_calls", []).append(call)
        elif kind == "function_call_output":
            call_id = item.get("call_id")
            messages.append(
                message(
                    "tool",
                    text_of(item.get("output")),
                    tool_call_id=call_id if isinstance(call_id, str) else None,
                )
            )
        else:
            messages.append(message("assistant", f"[{kind}]", extra=json_text(item)))
    if reasoning:
        messages.append(message("assistant", "", reasoning_content="\n".join(reasoning)))
    return messages


def _said(item: Mapping[str, Any]) -> MessageRecord:
    role = str(item.get("role") or "unknown").lower()
    content = item.get("content")
    plain = [
        {"type": "text", "text": part["text"]}
        if isinstance(part, Mapping) and part.get("type") in ("output_text", "input_text") and "text" in part
        else part
        for part in (content if isinstance(content, list) else [])
    ]
    extra = {} if has_only_text(plain) else {"content": content}
    return message(
        ROLES.get(role, role), text_of(plain if isinstance(content, list) else content), extra=extra
    )
