"""NeMo-Gym rollouts: one rollout a line, the log as items of the Responses API.

`mask_sample` is theirs: it also masks passing runs that hit a limit. A row of the failures file, a broken sandbox and an
evaluation that did not complete are infrastructure, though such rows may say `resolved: false`.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gagar_cli.core.messages_responses import responses_messages
from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Context, Format, Lift, Record, Row, known
from gagar_cli.io.formats.files import NativeFile, Sample
from gagar_cli.io.formats.parts import attempt_id, finished, prompt_key
from gagar_cli.io.formats.values import flag_of
from gagar_cli.io.records import MISSING, placed

_ANSWERED = {"response", "reward", "_ng_failure_class"}
_TRUNCATED = {"max_iteration": "truncated_turns", "context_window": "truncated_context"}


def detect(sample: Sample) -> str | None:
    """Lines with the parameters of a request, its response and a reward."""
    found = sorted(_ANSWERED & sample.keys)
    if sample.container != "lines" or not found or "responses_create_params" not in sample.keys:
        return None
    return (
        "_ng_task_index"
        if "_ng_task_index" in sample.keys
        else f"responses_create_params, {', '.join(found)}"
    )


def detect_inputs(sample: Sample) -> str | None:
    """Lines with the parameters of a request and nothing that came of it: tasks, also those of one collection."""
    if (
        sample.container == "lines"
        and "responses_create_params" in sample.keys
        and not _ANSWERED & sample.keys
    ):
        return "responses_create_params without a response"
    return None


def read(file: NativeFile, context: Context) -> Iterator[Row]:
    """Every rollout."""
    for number, value in file.values():
        if isinstance(value, InputError):
            yield Row(number, value)
        elif not isinstance(value, Mapping) or not isinstance(value.get("responses_create_params"), Mapping):
            yield Row(number, InputError(f"{file.name}:{number}: responses_create_params is missing"))
        else:
            try:
                yield Row(number, _record(value, number, context))
            except InputError as error:
                yield Row(number, placed(error, f"{file.name}:{number}"))


def _record(value: Mapping[str, Any], number: int, context: Context) -> Record:
    lift = Lift(value)
    asked = lift.peek("responses_create_params.input", MISSING)
    told = lift.peek("responses_create_params.metadata")
    told = told if isinstance(told, Mapping) else {}
    task_index = lift.integer("_ng_task_index")
    rollout_index = lift.integer("_ng_rollout_index")
    attempt_index = lift.integer("_ng_attempt_index")
    instance_id = _first_text(
        told.get("instance_id"), value.get("instance_id"), lift.peek("metadata.instance_id")
    )
    task = _task(told, lift)
    if instance_id is not None:
        group, source = instance_id, "field:instance_id"
    elif task_index is not None:
        group, source = f"task-{task_index}", "field:_ng_task_index"
    else:
        group, source = prompt_key(asked, "responses_create_params.input", context), "equal_prompt"
    number_id = number if rollout_index is None else rollout_index
    report = lift.peek("metadata.eval_report")
    patch = lift.peek("model_patch", lift.peek("metadata.model_patch"))
    made_id = _first_text(lift.text("_ng_rollout_id")) or attempt_id(
        context, group if task_index is None else f"task-{task_index}", number_id, attempt_index
    )
    messages = [*responses_messages(asked), *responses_messages(lift.peek("response.output"))]
    lift.take("response.output")
    lift.take("responses_create_params.input")
    usage = lift.peek("response.usage")
    record: Record = {
        "group_id": group,
        "group_id_source": source,
        "trajectory_id": _tried(made_id, value, context),
        "messages": messages,
        "model_patch": patch if isinstance(patch, str) else None,
        **({"reward": lift.take("reward")} if "reward" in value else {}),
        **_verdict(value, report, instance_id),
        **known(
            instance_id=instance_id,
            attempt=rollout_index,
            mask_sample=flag_of(lift.take("mask_sample"), "mask_sample"),
            agent_name=_first_text(lift.peek("agent_ref.name")),
            model_name_or_path=_first_text(lift.peek("response.model")),
            n_input_tokens=_positive(usage, "input_tokens"),
            n_output_tokens=_positive(usage, "output_tokens"),
            duration_s=lift.number("agent_run_time"),
        ),
        **task,
        **_ending(value),
        "source_format": "nemo-gym",
    }
    return finished(record, lift, context)


def _tried(made_id: str, value: Mapping[str, Any], context: Context) -> str:
    """The id of a rollout, with the number of the try where it failed more than once: the failures file has them all."""
    if "_ng_failure_class" not in value:
        return made_id
    context.seen[made_id] = n_tries = context.seen.get(made_id, 0) + 1
    return made_id if n_tries == 1 else f"{made_id}/try-{n_tries}"


def _verdict(value: Mapping[str, Any], report: Any, instance_id: str | None) -> Record:
    resolved = flag_of(value.get("resolved"), "resolved")
    if resolved is not None:
        return {"resolved": resolved}
    if isinstance(report, Mapping):
        inner = report.get(instance_id) if instance_id in report else next(iter(report.values()), None)
        found = inner.get("resolved") if isinstance(inner, Mapping) else None
        status = inner.get("tests_status") if isinstance(inner, Mapping) else None
        return {
            "resolved": flag_of(found, "metadata.eval_report.resolved"),
            **({"tests_status": json.dumps(status)} if status else {}),
        }
    # What is there and says nothing was not evaluated, whatever the reward is.
    return {"resolved": None} if "resolved" in value else {}


def _ending(value: Mapping[str, Any]) -> Record:
    reasons = [
        f"{name} is {value[name]}"
        for name in ("_ng_failure_class", "error_kind")
        if isinstance(value.get(name), str) and value[name]
    ]
    if value.get("evaluation_completed") == 0:
        reasons.append("evaluation_completed is false")
    if value.get("eval_timed_out") == 1 and not reasons:
        reasons.append("eval_timed_out")
    kind = value.get("agent_error_kind")
    ending: Record = {}
    if isinstance(kind, str):
        ending = {"exit_status": kind}
        if kind in _TRUNCATED:
            ending |= {"termination": _TRUNCATED[kind], "is_truncated": True}
    if value.get("agent_timed_out") == 1:
        ending |= {"termination": "truncated_time", "is_truncated": True}
    if reasons:
        ending |= {"infra_failure": True, "infra_failure_reason": "; ".join(reasons)}
    return ending


def _task(told: Mapping[str, Any], lift: Lift) -> Record:
    instance: Any = told.get("instance_dict")
    if isinstance(instance, str):
        try:
            instance = json.loads(instance)
        except (ValueError, RecursionError):
            instance = None
    instance = instance if isinstance(instance, Mapping) else {}
    return known(
        problem_statement=_first_text(told.get("problem_statement"), instance.get("problem_statement")),
        repo=_first_text(instance.get("repo")),
        base_commit=_first_text(instance.get("base_commit")),
        version=_first_text(instance.get("version")),
        workdir=_first_text(told.get("workdir")),
        docker_image=_first_text(told.get("docker_image"), lift.peek("instance_config.container")),
    )


def _first_text(*values: Any) -> str | None:
    return next((value for value in values if isinstance(value, str) and value), None)


def _positive(usage: Any, name: str) -> int | None:
    """A count of tokens; harnesses that count none write 0."""
    value = usage.get(name) if isinstance(usage, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


FORMAT = Format(
    name="nemo-gym",
    title="NeMo-Gym rollouts",
    container="<output>.jsonl and <output>_failures.jsonl, one rollout a line",
    detect=detect,
    read=read,
    mapping={
        "group_id": "the instance_id, else _ng_task_index, else equal input",
        "trajectory_id": "_ng_rollout_id, else task and _ng_rollout_index",
        "reward, resolved": "reward; resolved or metadata.eval_report",
        "mask_sample": "mask_sample",
        "infra_failure": "_ng_failure_class, error_kind, eval_timed_out, evaluation_completed: false",
        "is_truncated": "agent_timed_out, agent_error_kind max_iteration or context_window",
        "messages": "responses_create_params.input and response.output (Responses items)",
        "model_patch": "model_patch or metadata.model_patch",
        "problem_statement, repo, base_commit": "responses_create_params.metadata and its instance_dict",
    },
)
INPUTS = Format(
    name="nemo-gym-inputs",
    title="NeMo-Gym tasks",
    container="JSON lines of responses_create_params, <output>_materialized_inputs.jsonl",
    detect=detect_inputs,
    read=None,
    role="refused",
    needs_join="nothing: these are tasks, the rollouts are in the file that the collection wrote",
    mapping={},
)
