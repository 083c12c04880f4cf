"""OpenHands: `output.jsonl` of the V0 evaluation and of the V1 benchmarks, the resolver's, and event logs of the SDK.

A V0 or V1 line is one attempt at one instance. The verdict is the harness's `report`, where it was merged in; what the
resolver calls `success` is a model's guess and no verdict. An error of the runtime is invalid, a used-up budget is not.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from gagar_cli.core.messages_agents import openhands_messages
from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Context, Format, Lift, Record, Row, known
from gagar_cli.io.formats.files import NativeFile, Sample
from gagar_cli.io.formats.parts import attempt_id, ended, finished, row_of
from gagar_cli.io.formats.values import flag_of
from gagar_cli.io.records import checked_identifier

_BUDGET = re.compile(r"maximum iteration|max(imum)? budget|stuck in a loop|AgentStuckInLoop", re.IGNORECASE)


def detect(sample: Sample) -> str | None:
    """Lines of an instance with its test result and history."""
    if sample.container not in ("lines", "array", "document"):
        return None
    if {"instance_id", "test_result", "history"} <= sample.keys:
        history = sample.first["history"]
        first = history[0] if isinstance(history, list) and history else None
        is_v1 = "attempt" in sample.keys or (isinstance(first, Mapping) and "kind" in first)
        return f"instance_id, test_result and history: OpenHands {'V1' if is_v1 else 'V0'}"
    if {"issue", "git_patch", "success"} <= sample.keys:
        return "issue, git_patch and success: the OpenHands resolver"
    return None


def detect_events(sample: Sample) -> str | None:
    """Lines of events, each with a kind."""
    if sample.container == "lines" and {"kind", "id", "timestamp", "source"} <= sample.keys:
        return "events with kind, id, timestamp and source: the OpenHands SDK"
    return None


def read(file: NativeFile, context: Context) -> Iterator[Row]:
    """Every attempt."""
    for number, value in file.values():
        if isinstance(value, InputError):
            yield Row(number, value)
        elif not isinstance(value, Mapping):
            yield Row(
                number, InputError(f"{file.name}:{number}: no object, expected an attempt of OpenHands")
            )
        elif "issue" in value:
            yield Row(number, _resolved_issue(value, context))
        elif "instance_id" in value:
            yield row_of(number, file, partial(_record, value, context))
        else:
            yield Row(number, InputError(f"{file.name}:{number}: instance_id is missing"))


def read_events(file: NativeFile, context: Context) -> Iterator[Row]:
    """The one conversation that all lines of a file are."""
    events = []
    for number, value in file.values():
        if isinstance(value, InputError):
            yield Row(number, value)
        else:
            events.append(value)
    name = file.own_name.partition(".")[0]
    record: Record = {
        "group_id": name,
        "group_id_source": "file_name",
        "instance_id": name,
        "trajectory_id": attempt_id(context, name),
        "resolved": None,
        "messages": openhands_messages(events),
        "source_format": "openhands-events",
    }
    yield Row(1, finished(record, Lift({"events": events}), context))


def _record(value: Mapping[str, Any], context: Context) -> Record:
    lift = Lift(value)
    instance_id = checked_identifier(lift.take("instance_id"), "instance_id")
    history = lift.peek("history")
    history = history if isinstance(history, list) else []
    error = lift.text("error")
    attempt = lift.integer("attempt")
    report = lift.peek("report") or lift.peek("test_result.report") or lift.peek("test_result.result")
    report = report if isinstance(report, Mapping) else {}
    is_v1 = attempt is not None or any(isinstance(each, Mapping) and "kind" in each for each in history[:1])
    record: Record = {
        "group_id": instance_id,
        "group_id_source": "field:instance_id",
        "instance_id": instance_id,
        "trajectory_id": attempt_id(context, instance_id, None if attempt is None else f"attempt-{attempt}"),
        "resolved": flag_of(report.get("resolved"), "report.resolved"),
        "messages": openhands_messages(history),
        "model_patch": lift.text("test_result.git_patch"),
        **known(
            attempt=attempt,
            problem_statement=lift.text("instance.problem_statement"),
            repo=lift.text("instance.repo"),
            base_commit=lift.text("instance.base_commit"),
            version=lift.text("instance.version"),
            model_name_or_path=_text(
                lift.peek("metadata.llm_config.model") or lift.peek("metadata.llm.model")
            ),
            agent_name=_text(lift.peek("metadata.agent_class")),
            test_output=lift.text("test_result.test_output"),
            cost_usd=lift.number("metrics.accumulated_cost"),
            n_turns=_n_turns(history) or None,
            n_input_tokens=lift.integer("metrics.accumulated_token_usage.prompt_tokens"),
            n_output_tokens=lift.integer("metrics.accumulated_token_usage.completion_tokens"),
            exit_status=error,
        ),
        **_ending(error, report, has_history=bool(history)),
        "source_format": "openhands-1" if is_v1 else "openhands-0",
    }
    return finished(record, lift, context)


def _ending(error: str | None, report: Mapping[str, Any], *, has_history: bool) -> Record:
    broken = next(
        (name for name in ("error_eval", "test_timeout", "infra_failure") if report.get(name) == 1), None
    )
    if broken:
        return {"infra_failure": True, "infra_failure_reason": f"report.{broken}"}
    if error is None:
        return {"termination": "completed", "is_truncated": False} if has_history else {}
    if not has_history:
        return {"termination": "aborted", "infra_failure": True, "infra_failure_reason": error[:500]}
    if _BUDGET.search(error):
        is_turns = "iteration" in error.lower()
        termination = (
            "truncated_turns"
            if is_turns
            else "truncated_cost"
            if "budget" in error.lower()
            else "agent_error"
        )
        return {
            "termination": termination,
            "is_truncated": termination != "agent_error",
            "infra_failure": False,
        }
    return ended(error)


def _resolved_issue(value: Mapping[str, Any], context: Context) -> Record:
    lift = Lift(value)
    issue = lift.peek("issue")
    issue = issue if isinstance(issue, Mapping) else {}
    instance_id = f"{issue.get('owner')}__{issue.get('repo')}-{issue.get('number')}"
    history = lift.peek("history")
    body = "\n\n".join(text for text in (issue.get("title"), issue.get("body")) if isinstance(text, str))
    record: Record = {
        "group_id": instance_id,
        "group_id_source": "field:issue",
        "instance_id": instance_id,
        "trajectory_id": attempt_id(context, instance_id),
        "resolved": None,
        "messages": openhands_messages(history if isinstance(history, list) else []),
        "model_patch": lift.text("git_patch"),
        **known(
            repo=f"{issue.get('owner')}/{issue.get('repo')}",
            problem_statement=body or None,
            base_commit=lift.text("base_commit") or None,
            cost_usd=lift.number("metrics.accumulated_cost"),
            exit_status=lift.text("error"),
        ),
        "source_format": "openhands-resolver",
    }
    return finished(record, lift, context)


def _n_turns(history: list[Any]) -> int:
    flat = [event for entry in history for event in (entry if isinstance(entry, list) else [entry])]
    return sum(
        isinstance(event, Mapping)
        and (
            event.get("kind") == "ActionEvent"
            or (bool(event.get("action")) and event.get("source") == "agent")
        )
        and event.get("action") != "system"
        for event in flat
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


FORMAT = Format(
    name="openhands",
    title="OpenHands evaluation output: V0, V1 and the resolver",
    container="<run>/output.jsonl, output.critic_attempt_N.jsonl, output.swebench_eval.jsonl",
    detect=detect,
    read=read,
    needs_join="verdicts, where no report was merged in",
    mapping={
        "group_id, instance_id": "instance_id; of the resolver: issue",
        "trajectory_id": "run directory / instance_id [/ attempt]",
        "resolved": "report.resolved or test_result.report.resolved; never the resolver's `success`",
        "infra_failure": "report.error_eval, report.test_timeout, errors of the runtime, an empty history with an error",
        "is_truncated": "an error that names the iteration or the budget",
        "messages": "history: events, pairs of action and observation, or V1 events",
        "model_patch": "test_result.git_patch; of the resolver: git_patch",
        "problem_statement, repo, base_commit": "instance",
        "test_output": "test_result.test_output",
        "n_output_tokens, cost_usd": "metrics",
    },
)
EVENTS = Format(
    name="openhands-events",
    title="OpenHands SDK event log",
    container="one conversation a file, one event a line",
    detect=detect_events,
    read=read_events,
    is_one_attempt=True,
    is_connected=True,
    needs_join="verdicts and patches",
    mapping={"group_id": "the file's name", "messages": "the events, by kind"},
)
