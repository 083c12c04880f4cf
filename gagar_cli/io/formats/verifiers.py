"""verifiers' `results.jsonl`, as the evaluation before v1 writes it: one rollout a line."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gagar_cli.core.messages import chat_messages, json_text
from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Context, Format, Lift, Record, Row, known
from gagar_cli.io.formats.files import NativeFile, Sample, storable
from gagar_cli.io.formats.parts import (
    attempt_id,
    check_keys,
    finished,
    instance_of,
    objects,
)
from gagar_cli.io.records import checked_identifier, from_json_text, placed


def _detect_verifiers(sample: Sample) -> str | None:
    is_result = sample.container == "lines" and {"example_id", "completion", "reward"} <= sample.keys
    if is_result and {"timing", "is_completed", "stop_condition", "metrics"} & sample.keys:
        return "example_id, completion and timing: results of verifiers"
    return None


def _read_verifiers(file: NativeFile, context: Context) -> Iterator[Row]:
    folder = Path(file.path).parent
    for number, value, error in objects(file, "a result of verifiers"):
        if error is not None:
            yield Row(number, error)
            continue
        lift = Lift(value)
        try:
            check_keys(value, ("example_id", "completion"), "verifiers")
            example = checked_identifier(lift.take("example_id"), "example_id")
            is_truncated = lift.flag("is_truncated")
        except InputError as problem:
            yield Row(number, placed(problem, f"{file.name}:{number}"))
            continue
        failed = _failure(lift.peek("error"))
        told = lift.peek("info")
        told = from_json_text(told) if isinstance(told, str) else told
        stop = lift.text("stop_condition")
        prompt, completion = lift.take("prompt"), lift.take("completion")
        messages = [*_log(prompt, "user"), *_log(completion, "assistant")]
        tools = lift.take("tool_defs")
        record: Record = {
            "group_id": example,
            "group_id_source": "field:example_id",
            "trajectory_id": attempt_id(
                context, storable(folder.name) if not context.run else None, f"{example}-{number}"
            ),
            "reward": lift.take("reward"),
            "messages": messages,
            **known(
                instance_id=instance_of(told),
                is_truncated=is_truncated,
                exit_status=stop,
                tools=json_text(tools) if tools else None,
                model_patch=lift.text("model_patch" if "model_patch" in lift.rest else "patch"),
                test_output=lift.text("test_output"),
                infra_failure=True if failed else None,
                infra_failure_reason=failed,
                n_input_tokens=lift.integer("token_usage.input_tokens"),
                n_output_tokens=lift.integer("token_usage.output_tokens"),
            ),
            "source_format": "verifiers",
        }
        yield Row(number, finished(record, lift, context))


def _failure(error: Any) -> str | None:
    """What broke a result: a record of the error, its text as older versions have it, or anything else that stands there."""
    if isinstance(error, Mapping) and error:
        told = error.get("error") or error.get("message")
        return str(told)[:500] if told else json_text(error)[:500]
    return (error if isinstance(error, str) else json_text(error))[:500] if error else None


def _log(value: Any, role: str) -> list[dict[str, Any]]:
    if isinstance(value, str):
        return chat_messages([{"role": role, "content": value}])
    return chat_messages([_with_calls(each) for each in value] if isinstance(value, list) else [])


def _with_calls(entry: Any) -> Any:
    """A message whose calls of tools are objects: results have each as JSON text."""
    calls = entry.get("tool_calls") if isinstance(entry, Mapping) else None
    if not isinstance(calls, list) or not any(isinstance(call, str) for call in calls):
        return entry
    return {
        **entry,
        "tool_calls": [from_json_text(call) if isinstance(call, str) else call for call in calls],
    }


FORMAT = Format(
    name="verifiers",
    title="verifiers results",
    container="outputs/evals/<env>--<model>/<id>/results.jsonl",
    detect=_detect_verifiers,
    read=_read_verifiers,
    mapping={
        "group_id": "example_id",
        "trajectory_id": "the folder, example_id and line",
        "reward": "reward",
        "infra_failure": "error",
        "is_truncated": "is_truncated",
        "messages": "prompt and completion",
        "model_patch, test_output": "state columns of these names, where they were kept",
    },
)
