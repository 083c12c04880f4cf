"""SWE-agent up to 0.7 and from 1.0: `.traj` files, one attempt a file, or several under `attempts` (retry agent).

`history` is the conversation; `trajectory` repeats it step by step, from 1.0 on with the whole prompt of every step.
The verdict is in a report of the harness; a run that the model's API or the environment ended is invalid.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gagar_cli.core.messages import chat_messages
from gagar_cli.core.messages_agents import action_messages
from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Context, Format, Lift, Record, Row, known
from gagar_cli.io.formats.files import NativeFile, Sample
from gagar_cli.io.formats.parts import attempt_id, finished

_TERMINATIONS = {
    "exit_context": "truncated_context",
    "exit_cost": "truncated_cost",
    "exit_total_execution_time": "truncated_time",
    "exit_command_timeout": "agent_error",
    "exit_format": "format_error",
    "exit_api": "aborted",
    "exit_environment_error": "aborted",
    "exit_forfeit": "agent_error",
    "exit_error": "agent_error",
    "exit_command": "agent_error",
    "early_exit": "agent_error",
}
_INFRASTRUCTURE = ("exit_api", "exit_environment_error")
_STATUS = re.compile(r"(?:submitted \()?(\w+)\)?")


def detect(sample: Sample) -> str | None:
    """A document with a trajectory, its history and its end."""
    if sample.container not in ("document", "lines") or not isinstance(sample.first, Mapping):
        return None
    if {"trajectory", "history", "info"} <= sample.keys:
        version = "1.0 or later" if "replay_config" in sample.keys else "up to 0.7"
        return f"trajectory, history and info: SWE-agent {version}"
    history = sample.first.get("history")
    first = history[0] if isinstance(history, list) and history else None
    is_log = isinstance(first, Mapping) and {"role", "agent"} <= first.keys()
    if is_log and sample.keys <= {"history", "info", "environment", "trajectory"}:
        return "a history of messages with roles and agents"
    return None


def read(file: NativeFile, context: Context) -> Iterator[Row]:
    """The attempts of a file."""
    instance_id = file.own_name.removesuffix(".json").removesuffix(".traj")
    for number, document in file.values():
        if isinstance(document, InputError):
            yield Row(number, document)
        elif isinstance(document, Mapping):
            yield from _attempts(document, number, instance_id, context, file.name)
        else:
            yield Row(
                number, InputError(f"{file.name}:{number}: no object, expected a trajectory of SWE-agent")
            )


def _attempts(
    document: Mapping[str, Any], number: int, instance_id: str, context: Context, name: str
) -> Iterator[Row]:
    attempts = document.get("attempts")
    if not isinstance(attempts, list) or not attempts:
        yield Row(number, _record(document, instance_id, context, None))
        return
    shared = {name: document[name] for name in ("replay_config", "environment") if name in document}
    for place, attempt in enumerate(attempts):
        if isinstance(attempt, Mapping):
            yield Row(number + place, _record(shared | dict(attempt), instance_id, context, place))
        else:
            yield Row(number + place, InputError(f"{name}:{number}: attempts[{place}] is no object"))


def _record(document: Mapping[str, Any], instance_id: str, context: Context, attempt: int | None) -> Record:
    lift = Lift(document)
    history = lift.take("history")
    steps = lift.peek("trajectory")
    n_steps = len(steps) if isinstance(steps, list) else None
    messages = chat_messages(history) if isinstance(history, list) and history else action_messages(steps)
    submission = lift.take("info.submission")
    status = lift.text("info.exit_status")
    n_calls = lift.integer("info.model_stats.api_calls")
    record: Record = {
        "group_id": instance_id,
        "group_id_source": "file_name",
        "instance_id": instance_id,
        "trajectory_id": attempt_id(context, instance_id, None if attempt is None else f"attempt-{attempt}"),
        "resolved": None,
        "messages": messages,
        "model_patch": submission if isinstance(submission, str) else None,
        **known(
            attempt=attempt,
            exit_status=status,
            n_turns=n_steps if n_calls is None else n_calls,
            n_input_tokens=lift.integer("info.model_stats.tokens_sent"),
            n_output_tokens=lift.integer("info.model_stats.tokens_received"),
            cost_usd=lift.number("info.model_stats.instance_cost"),
            agent_version=lift.text("info.swe_agent_version"),
        ),
        **_replayed(document.get("replay_config")),
        **ending(status),
        "source_format": "swe-agent-1" if "replay_config" in document else "swe-agent-0",
    }
    return finished(record, lift, context)


def ending(status: str | None) -> Record:
    """What an exit status says: `termination`, `is_truncated`, `infra_failure`."""
    if not status:
        return {}
    if status == "submitted":
        return {"termination": "completed", "is_truncated": False, "infra_failure": False}
    found = _STATUS.fullmatch(status)
    reason = found[1] if found else status
    termination = _TERMINATIONS.get(reason, "unknown")
    is_infrastructure = reason in _INFRASTRUCTURE
    return {
        "termination": termination,
        "is_truncated": termination.startswith("truncated"),
        "infra_failure": is_infrastructure,
        **({"infra_failure_reason": status} if is_infrastructure else {}),
    }


def _replayed(config: Any) -> Record:
    """What the configuration of a run from 1.0 on says about its task."""
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except (ValueError, RecursionError):
            return {}
    if not isinstance(config, Mapping):
        return {}
    lift = Lift(config)
    statement = lift.peek("problem_statement.text")
    image = lift.peek("env.deployment.image")
    commit = lift.peek("env.repo.base_commit")
    model = lift.peek("agent.model.name")
    return known(
        problem_statement=statement if isinstance(statement, str) else None,
        docker_image=image if isinstance(image, str) else None,
        base_commit=commit if isinstance(commit, str) and commit != "HEAD" else None,
        model_name_or_path=model if isinstance(model, str) else None,
    )


FORMAT = Format(
    name="swe-agent",
    title="SWE-agent trajectories, up to 0.7 and from 1.0",
    container="<run>/<id>.traj or <run>/<id>/<id>.traj, one attempt a file; predictions beside them give missing patches",
    detect=detect,
    read=read,
    is_one_attempt=True,
    needs_join="verdicts (a report of the SWE-bench harness)",
    mapping={
        "group_id, instance_id": "the file's name",
        "trajectory_id": "run directory / instance_id [/ attempt]",
        "attempt": "place in attempts (retry agent)",
        "messages": "history, else trajectory (thought, action, observation)",
        "model_patch": "info.submission",
        "exit_status": "info.exit_status",
        "infra_failure": "exit_api, exit_environment_error",
        "is_truncated": "exit_context, exit_cost, exit_total_execution_time",
        "problem_statement, base_commit, docker_image": "replay_config (1.0)",
        "n_turns, n_output_tokens, cost_usd": "info.model_stats",
    },
)
