"""mini-swe-agent 1.x and 2.x: `<run>/<id>/<id>.traj.json`, one attempt a file; older test files are a bare list of messages.

`exit_status` is `Submitted`, a limit, or the class name of whatever Python exception ended the run: the latter is
infrastructure, unless a patch was submitted all the same. The verdict is in a report of the harness.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from gagar_cli.core.messages import chat_messages
from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Context, Format, Lift, Record, Row, known
from gagar_cli.io.formats.files import NativeFile, Sample
from gagar_cli.io.formats.parts import attempt_id, finished, row_of
from gagar_cli.io.records import checked_identifier

_EXITS: dict[str, Record] = {
    "Submitted": {"termination": "completed", "is_truncated": False, "infra_failure": False},
    "LimitsExceeded": {"termination": "truncated_cost", "is_truncated": True, "infra_failure": False},
    "TimeExceeded": {"termination": "truncated_time", "is_truncated": True, "infra_failure": False},
    "RepeatedFormatError": {"termination": "format_error", "is_truncated": False, "infra_failure": False},
    "ContextWindowExceededError": {
        "termination": "truncated_context",
        "is_truncated": True,
        "infra_failure": False,
    },
}


def detect(sample: Sample) -> str | None:
    """A record that names the trajectory format, or a bare list of messages."""
    if (
        sample.container == "document"
        and isinstance(sample.first, list)
        and sample.name.endswith(".traj.json")
    ):
        return "a list of messages in a `.traj.json` file"
    named = sample.first.get("trajectory_format") if isinstance(sample.first, Mapping) else None
    if isinstance(named, str) and named.startswith("mini-swe-agent"):
        return f'trajectory_format is "{named}"'
    return None


def read(file: NativeFile, context: Context) -> Iterator[Row]:
    """The attempt of a file, or one a line where several were collected."""
    stem = file.own_name.removesuffix(".json").removesuffix(".traj")
    for number, value in file.values():
        document = {"messages": value} if isinstance(value, list) else value
        if isinstance(document, InputError):
            yield Row(number, document)
        elif not isinstance(document, Mapping) or not isinstance(document.get("messages"), list):
            wanted = "expected a trajectory of mini-swe-agent"
            yield Row(number, InputError(f"{file.name}:{number}: no list of messages, {wanted}"))
        else:
            yield row_of(number, file, partial(_record, document, stem, context))


def _record(document: Mapping[str, Any], stem: str, context: Context) -> Record:
    lift = Lift(document)
    named = lift.take("instance_id")
    instance_id = stem if named in (None, "") else checked_identifier(named, "instance_id")
    submission = lift.take("info.submission")
    status = lift.text("info.exit_status")
    record: Record = {
        "group_id": instance_id,
        "group_id_source": "field:instance_id" if named else "file_name",
        "instance_id": instance_id,
        "trajectory_id": attempt_id(context, instance_id),
        "resolved": None,
        "messages": chat_messages(lift.take("messages")),
        "model_patch": submission if isinstance(submission, str) else None,
        **known(
            model_name_or_path=lift.text("info.config.model.model_name"),
            agent_version=lift.text("info.mini_version"),
            docker_image=lift.text("info.config.environment.image"),
            workdir=lift.text("info.config.environment.cwd"),
            n_turns=lift.integer("info.model_stats.api_calls"),
            cost_usd=lift.number("info.model_stats.instance_cost"),
            exit_status=status,
        ),
        **_ending(status, has_patch=bool(submission)),
        "source_format": str(lift.peek("trajectory_format") or "mini-swe-agent (list of messages)"),
    }
    return finished(record, lift, context)


def _ending(status: str | None, *, has_patch: bool) -> Record:
    if status is None:
        return {}
    if not status:  # saved after every step: this is what a run that was killed leaves
        return {
            "termination": "unknown",
            "infra_failure": True,
            "infra_failure_reason": "the run did not end",
        }
    if status in _EXITS:
        return dict(_EXITS[status])
    if has_patch:
        return {"termination": "aborted", "is_truncated": False}
    return {
        "termination": "aborted",
        "is_truncated": False,
        "infra_failure": True,
        "infra_failure_reason": f"the run ended with the exception {status}",
    }


FORMAT = Format(
    name="mini-swe-agent",
    title="mini-swe-agent 1.x and 2.x trajectories",
    container="<run>/<id>/<id>.traj.json, one attempt a file; preds.json beside them gives missing patches",
    detect=detect,
    read=read,
    is_one_attempt=True,
    needs_join="verdicts (a report of the SWE-bench harness)",
    mapping={
        "group_id, instance_id": "instance_id, else the file's name",
        "trajectory_id": "run directory / instance_id",
        "messages": "messages",
        "model_patch": "info.submission",
        "exit_status": "info.exit_status",
        "infra_failure": "an exception's name as exit_status, without a patch",
        "is_truncated": "LimitsExceeded, TimeExceeded, ContextWindowExceededError",
        "docker_image, workdir": "info.config.environment.image, .cwd",
        "model_name_or_path": "info.config.model.model_name",
        "n_turns, cost_usd": "info.model_stats.api_calls, .instance_cost",
    },
)
