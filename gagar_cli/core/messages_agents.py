"""The event logs of agents as canonical messages: SWE-agent, R2E-Gym, OpenHands (V0 and V1), ATIF.

An action becomes an assistant message with one tool call, its observation a tool message. Agents that act in text (an
action inside the reply) get both: the reply as it was written, and the action as a call named `action`.
"""

from collections.abc import Mapping
from typing import Any

from gagar_cli.core.messages import MessageRecord, has_only_text, message, text_of, tool_call

_OPENHANDS_DROPPED = ("system", "message", "recall", "change_agent_state", "agent_state_changed", "null")


def action_messages(steps: object, *, reply_key: str = "thought") -> list[MessageRecord]:
    """Messages of thought/action/observation steps, as SWE-agent's `trajectory` and R2E-Gym have them."""
    messages = []
    for step in _listed(steps):
        if not isinstance(step, Mapping):
            messages.append(message("unknown", text_of(step)))
            continue
        reply = text_of(step.get(reply_key))
        action = text_of(step.get("action"))
        calls = [tool_call("action", action)] if action.strip() else []
        messages.append(message("assistant", reply, tool_calls=calls))
        if step.get("observation") is not None:
            messages.append(message("tool", text_of(step["observation"])))
    return messages


def atif_messages(steps: object) -> list[MessageRecord]:
    """Messages of ATIF steps; steps that only repeat an earlier context are left out."""
    messages: list[MessageRecord] = []
    for step in _listed(steps):
        if not isinstance(step, Mapping):
            messages.append(message("unknown", text_of(step)))
            continue
        if step.get("is_copied_context"):
            continue
        source = str(step.get("source") or "unknown")
        calls = [
            tool_call(call.get("function_name"), call.get("arguments"), call.get("tool_call_id"))
            for call in _mappings(step.get("tool_calls"))
        ]
        content = step.get("message")
        messages.append(
            message(
                {"agent": "assistant"}.get(source, source),
                text_of(content),
                reasoning_content=step.get("reasoning_content"),
                tool_calls=calls,
                extra={} if has_only_text(content) else {"content": content},
            )
        )
        observation = step.get("observation")
        results = observation.get("results") if isinstance(observation, Mapping) else None
        for result in _mappings(results):
            call_id = result.get("source_call_id")
            content = result.get("content")
            messages.append(
                message(
                    "tool",
                    text_of(content),
                    tool_call_id=call_id if isinstance(call_id, str) else None,
                    extra={} if has_only_text(content) else {"content": content},
                )
            )
    return messages


def openhands_messages(history: object) -> list[MessageRecord]:
    """Messages of OpenHands' events: V0 dicts, the older pairs of action and observation, or V1 events by `kind`."""
    messages: list[MessageRecord] = []
    for entry in _listed(history):
        events = entry if isinstance(entry, list) else [entry]
        for event in events:
            if isinstance(event, Mapping):
                messages += _v1_event(event) if "kind" in event else _v0_event(event)
            elif event is not None:
                messages.append(message("unknown", text_of(event)))
    return messages


def _v0_event(event: Mapping[str, Any]) -> list[MessageRecord]:
    arguments = event.get("args")
    if not isinstance(arguments, Mapping):
        arguments = {
            key: value
            for key, value in event.items()
            if key not in ("id", "timestamp", "source", "action", "observation", "message", "cause")
        }
    if "observation" in event:
        kind = str(event["observation"])
        if kind in _OPENHANDS_DROPPED:
            return []
        content = text_of(event.get("content"))
        return [message("tool", content, tool_call_id=_call_id(event), name=kind)]
    kind = str(event.get("action") or "")
    text = text_of(arguments.get("content"))
    if kind == "system":
        return [message("system", text)]
    if kind == "message":
        role = "user" if event.get("source") in ("user", None) and not _is_reply(event) else "assistant"
        return [message(role, text)]
    if kind in _OPENHANDS_DROPPED:
        return []
    thought = arguments.get("thought")
    called = {key: value for key, value in arguments.items() if key != "thought" and value not in (None, "")}
    return [message("assistant", text_of(thought), tool_calls=[tool_call(kind, called, _call_id(event))])]


def _is_reply(event: Mapping[str, Any]) -> bool:
    # The oldest logs have no source: what waits for an answer was said by the agent.
    return event.get("source") is None and event.get("wait_for_response") is True


def _call_id(event: Mapping[str, Any]) -> str | None:
    found = event.get("tool_call_metadata")
    call_id = found.get("tool_call_id") if isinstance(found, Mapping) else None
    return call_id if isinstance(call_id, str) else None


def _v1_event(event: Mapping[str, Any]) -> list[MessageRecord]:
    kind = str(event.get("kind"))
    if kind == "SystemPromptEvent":
        return [message("system", _nested_text(event.get("system_prompt")))]
    if kind == "MessageEvent":
        said = event.get("llm_message")
        content = said.get("content") if isinstance(said, Mapping) else event.get("content")
        role = str(said.get("role")) if isinstance(said, Mapping) and said.get("role") else "unknown"
        reasoning = said.get("reasoning_content") if isinstance(said, Mapping) else None
        return [message(role, text_of(content), reasoning_content=reasoning)]
    call_id = event.get("tool_call_id")
    call_id = call_id if isinstance(call_id, str) else None
    if kind == "ActionEvent":
        action = event.get("action")
        called = event.get("tool_call")
        arguments = action
        if isinstance(called, Mapping) and called.get("arguments") is not None:
            arguments = called["arguments"]
        return [
            message(
                "assistant",
                text_of(event.get("thought")),
                reasoning_content=event.get("reasoning_content"),
                tool_calls=[tool_call(event.get("tool_name"), arguments, call_id)],
            )
        ]
    if kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        observation = event.get("observation")
        content = observation.get("content") if isinstance(observation, Mapping) else None
        if content is None:
            content = event.get("error") or event.get("rejection_reason") or observation
        return [message("tool", text_of(content), tool_call_id=call_id, name=event.get("tool_name"))]
    return []


def _nested_text(value: object) -> str:
    if isinstance(value, Mapping) and "text" in value:
        return text_of(value["text"])
    return text_of(value)


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
