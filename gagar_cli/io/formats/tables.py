"""Published tables of trajectories: SWE-smith's two, SWE-Gym, both of nebius, SWE-Zero; as Parquet, JSON lines or an array.

Rows of one instance are a group. SWE-smith's `patch` often belongs to another repository than the row: it stays in
`raw` and is not taken for the attempt's patch. nebius' SWE-rebench table has `resolved` as 0 or 1.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from gagar_cli.core.messages import chat_messages, json_text
from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Context, Format, Lift, Record, Row, known
from gagar_cli.io.formats.files import NativeFile, Sample
from gagar_cli.io.formats.parts import attempt_id, ended, finished, row_of
from gagar_cli.io.formats.swe_agent import ending as swe_agent_ending
from gagar_cli.io.formats.values import flag_of
from gagar_cli.io.records import checked_identifier, from_json_text

_KEYS = {
    "swe-smith": {"messages", "traj_id", "resolved"},
    "swe-gym": {"messages", "test_result", "run_id"},
    "nebius-swe-agent": {"trajectory", "target", "generated_patch"},
    "nebius-openhands": {"trajectory", "model_patch", "instance_id"},
}
_TUNING_ROW = {"messages", "instance_id"}
_CANONICAL = {"group_id", "reward", "source_format"}


def _detect(name: str, sample: Sample) -> str | None:
    """Rows with the columns of the table."""
    if sample.container == "unknown" or not _KEYS[name] <= sample.keys or _CANONICAL & sample.keys:
        return None
    return f"columns {', '.join(sorted(_KEYS[name]))}"


def _detect_tuning(sample: Sample) -> str | None:
    """Rows of a log and its instance, and nothing else."""
    return "columns instance_id and messages only" if sample.keys == _TUNING_ROW else None


def _read(name: str, file: NativeFile, context: Context) -> Iterator[Row]:
    """Every row."""
    make = _MAKERS[name]
    for number, value in file.values():
        if isinstance(value, InputError):
            yield Row(number, value)
        elif not isinstance(value, Mapping) or not value.get("instance_id"):
            yield Row(number, InputError(f"{file.name}:{number}: instance_id is missing"))
        else:
            yield row_of(number, file, partial(_record, make, name, Lift(value), number, context))


def _record(
    make: Callable[[Lift, int, Context], Record], name: str, lift: Lift, number: int, context: Context
) -> Record:
    return finished(make(lift, number, context) | {"source_format": name}, lift, context)


def _started(lift: Lift, trajectory_id: str) -> Record:
    instance_id = checked_identifier(lift.take("instance_id"), "instance_id")
    return {
        "group_id": instance_id,
        "group_id_source": "field:instance_id",
        "instance_id": instance_id,
        "trajectory_id": trajectory_id,
    }


def _flag(lift: Lift, name: str) -> bool | None:
    return flag_of(lift.take(name), name)


def _messages(lift: Lift, name: str) -> list[dict[str, Any]]:
    value = lift.take(name)
    if isinstance(value, str):
        value = from_json_text(value)
    return chat_messages([_without_nulls(each) for each in value] if isinstance(value, list) else [])


def _without_nulls(value: Any) -> Any:
    """A struct of Parquet without the fields that only other rows have."""
    return (
        {key: each for key, each in value.items() if each is not None}
        if isinstance(value, Mapping)
        else value
    )


def _smith(lift: Lift, number: int, context: Context) -> Record:
    trajectory_id = lift.text("traj_id") or attempt_id(context, "row", number)
    return {
        **_started(lift, trajectory_id),
        "resolved": _flag(lift, "resolved"),
        "messages": _messages(lift, "messages"),
        **known(model_name_or_path=lift.text("model")),
    }


def _tuning(lift: Lift, number: int, context: Context) -> Record:
    return {
        **_started(lift, attempt_id(context, "row", number)),
        "resolved": None,
        "messages": _messages(lift, "messages"),
    }


def _gym(lift: Lift, number: int, _context: Context) -> Record:
    run = lift.text("run_id") or str(number)
    report = lift.peek("test_result.report")
    report = report if isinstance(report, Mapping) else {}
    tools = lift.take("tools")
    resolved = _flag(lift, "resolved")
    broken = next((key for key in ("error_eval", "test_timeout") if report.get(key) == 1), None)
    return {
        **_started(lift, run),
        "resolved": resolved,
        "messages": _messages(lift, "messages"),
        **known(
            model_patch=lift.text("test_result.git_patch"),
            test_output=lift.text("test_result.test_output"),
            tools=json_text(tools) if tools else None,
            infra_failure=True if broken else None,
            infra_failure_reason=f"test_result.report.{broken}" if broken else None,
        ),
    }


def _nebius(lift: Lift, number: int, context: Context) -> Record:
    status = lift.text("exit_status")
    return {
        **_started(lift, attempt_id(context, "row", number)),
        "resolved": _flag(lift, "target"),
        "messages": _messages(lift, "trajectory"),
        "model_patch": lift.text("generated_patch"),
        **known(
            model_name_or_path=lift.text("model_name"),
            test_output=lift.text("eval_logs"),
            exit_status=status,
        ),
        **swe_agent_ending(status),
    }


def _rebench(lift: Lift, number: int, context: Context) -> Record:
    tools = lift.take("tools")
    status = lift.text("exit_status")
    is_plain_end = (
        status is None or "submit" in status.lower() or status.lower() in ("finished", "success", "completed")
    )
    return {
        **_started(lift, lift.text("trajectory_id") or attempt_id(context, "row", number)),
        "resolved": _flag(lift, "resolved"),
        "messages": _messages(lift, "trajectory"),
        "model_patch": lift.text("model_patch"),
        **known(
            repo=lift.text("repo"),
            tools=json_text(tools) if tools else None,
            exit_status=status,
        ),
        **({} if is_plain_end else ended(status)),
    }


_MAKERS = {
    "swe-smith": _smith,
    "swe-smith-tuning": _tuning,
    "swe-gym": _gym,
    "nebius-swe-agent": _nebius,
    "nebius-openhands": _rebench,
}


def _format(name: str, title: str, container: str, mapping: Mapping[str, str], needs: str = "") -> Format:
    return Format(
        name=name,
        title=title,
        container=container,
        detect=partial(_detect, name) if name in _KEYS else _detect_tuning,
        read=partial(_read, name),
        mapping={"group_id, instance_id": "instance_id"} | dict(mapping),
        needs_join=needs,
    )


FORMATS = (
    _format(
        "swe-smith",
        "SWE-smith trajectories",
        "Parquet, JSON lines or an array: messages, traj_id, resolved",
        {
            "trajectory_id": "traj_id",
            "resolved": "resolved",
            "messages": "messages",
            "raw": "patch, as it is unreliable",
        },
        "patches",
    ),
    _format(
        "swe-smith-tuning",
        "SWE-smith's rows for fine-tuning",
        "JSON lines, an array or Parquet: instance_id and messages, and nothing else",
        {"trajectory_id": "the row", "messages": "messages"},
        "verdicts; patches",
    ),
    _format(
        "swe-gym",
        "SWE-Gym OpenHands-Sampled-Trajectories",
        "Parquet, JSON lines or an array: messages, test_result, run_id",
        {
            "trajectory_id": "run_id",
            "resolved": "resolved",
            "infra_failure": "test_result.report.error_eval, .test_timeout",
            "messages, tools": "messages, tools",
            "model_patch, test_output": "test_result.git_patch, .test_output",
        },
    ),
    _format(
        "nebius-swe-agent",
        "nebius SWE-agent-trajectories",
        "Parquet, JSON lines or an array: trajectory, target, generated_patch",
        {
            "trajectory_id": "the row",
            "resolved": "target",
            "messages": "trajectory (role, text, system_prompt)",
            "model_patch, test_output": "generated_patch, eval_logs",
            "is_truncated, infra_failure": "exit_status",
        },
    ),
    _format(
        "nebius-openhands",
        "nebius SWE-rebench-openhands-trajectories, nvidia SWE-Zero",
        "Parquet, JSON lines or an array: trajectory, model_patch, instance_id",
        {
            "trajectory_id": "trajectory_id",
            "resolved": "resolved (0 or 1); missing in SWE-Zero",
            "messages, tools": "trajectory, tools",
            "model_patch": "model_patch",
        },
    ),
)
