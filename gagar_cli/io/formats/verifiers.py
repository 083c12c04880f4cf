"""verifiers: `results.jsonl` of the legacy evaluation, and traces of v1, which prime-rl writes too.

A trace is a tree of messages: each path from the root to a leaf is what the model saw, so each becomes one row, told
apart by `segment`. A reward that was not made is null.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gagar_cli.core.messages import chat_messages, json_text
from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Context, Format, Lift, Record, Row, known
from gagar_cli.io.formats.files import NativeFile, Sample
from gagar_cli.io.formats.parts import (
    attempt_id,
    ended,
    finished,
    instance_of,
    objects,
    prompt_key,
    statement_of,
    text_or_none,
    total,
)


def _detect_verifiers(sample: Sample) -> str | None:
    is_result = sample.container == "lines" and {"example_id", "completion", "reward"} <= sample.keys
    if is_result and {"timing", "is_completed", "stop_condition", "metrics"} & sample.keys:
        return "example_id, completion and timing: results of verifiers"
    return None


def _detect_traces(sample: Sample) -> str | None:
    if sample.container != "lines":
        return None
    if {"traces", "task"} <= sample.keys and {"env", "group"} & sample.keys:
        return "traces and task: episodes of verifiers v1 or prime-rl"
    return "nodes and calls: a bare trace" if {"nodes", "calls", "rewards"} <= sample.keys else None


def _read_verifiers(file: NativeFile, context: Context) -> Iterator[Row]:
    folder = Path(file.path).parent
    for number, value, error in objects(file, "a result of verifiers"):
        if error is not None:
            yield Row(number, error)
            continue
        lift = Lift(value)
        example = lift.take("example_id")
        failed = lift.peek("error")
        failed = failed if isinstance(failed, Mapping) else None
        told = lift.peek("info")
        stop = lift.text("stop_condition")
        prompt, completion = lift.take("prompt"), lift.take("completion")
        messages = [*_log(prompt, "user"), *_log(completion, "assistant")]
        tools = lift.take("tool_defs")
        record: Record = {
            "group_id": str(example),
            "group_id_source": "field:example_id",
            "trajectory_id": attempt_id(
                context, folder.name if not context.run else None, f"{example}-{number}"
            ),
            "reward": lift.take("reward"),
            "messages": messages,
            **known(
                instance_id=instance_of(told),
                is_truncated=lift.flag("is_truncated"),
                exit_status=stop,
                tools=json_text(tools) if tools else None,
                model_patch=lift.text("model_patch") or lift.text("patch"),
                test_output=lift.text("test_output"),
                infra_failure=True if failed else None,
                infra_failure_reason=str(failed.get("error") or failed.get("message"))[:500]
                if failed
                else None,
                n_input_tokens=lift.integer("token_usage.input_tokens"),
                n_output_tokens=lift.integer("token_usage.output_tokens"),
            ),
            "source_format": "verifiers",
        }
        yield Row(number, finished(record, lift, context))


def _read_traces(file: NativeFile, context: Context) -> Iterator[Row]:
    for number, value, error in objects(file, "an episode of verifiers"):
        if error is not None:
            yield Row(number, error)
            continue
        episode = value if "traces" in value else {"traces": [value], "task": value.get("task")}
        task = episode.get("task")
        task = task if isinstance(task, Mapping) else {}
        grouped = episode.get("group")
        group = grouped.get("id") if isinstance(grouped, Mapping) else None
        key = group or task.get("key") or task.get("hash")
        step = Lift(episode).peek("run.work.step")
        whole: Record = {
            "group_id": str(key) if key else prompt_key(task),
            "group_id_source": "field:group.id" if group else "field:task.key" if key else "equal_prompt",
            **known(
                instance_id=instance_of(task.get("data")) or text_or_none(task.get("key")),
                problem_statement=statement_of(task.get("data")),
                step=step if isinstance(step, int) else None,
            ),
            "source_format": "verifiers-1",
        }
        traces = episode.get("traces")
        for place, trace in enumerate(traces if isinstance(traces, list) else []):
            if not isinstance(trace, Mapping):
                yield Row(number, InputError(f"{file.name}:{number}: traces[{place}] is no object"))
                continue
            yield from (
                Row(number, finished(whole | branch, Lift({"trace": dict(trace)}), context))
                for branch in _branches(trace, f"{episode.get('id') or number}-{place}")
            )


def _branches(trace: Mapping[str, Any], made_id: str) -> Iterator[Record]:
    """One record for each path from the root to a leaf, the final conversation last."""
    nodes = trace.get("nodes")
    nodes = [node for node in nodes if isinstance(node, Mapping)] if isinstance(nodes, list) else []
    parents = {node.get("parent") for node in nodes}
    leaves: list[int | None] = [index for index in range(len(nodes)) if index not in parents] or [None]
    errors = trace.get("errors")
    is_broken = trace.get("ok") is False or bool(errors)
    reward = _total(trace.get("rewards"))
    stop = text_or_none(trace.get("stop_condition"))
    agent = Lift(trace).peek("agent.name")
    for segment, leaf in enumerate(leaves):
        yield {
            "trajectory_id": text_or_none(trace.get("id")) or made_id,
            "reward": reward,
            "messages": _path(nodes, leaf),
            **known(
                segment=segment or None,
                exit_status=stop,
                agent_name=text_or_none(agent),
                n_turns=sum(bool(node.get("sampled")) for node in nodes),
                infra_failure=True if is_broken else None,
                infra_failure_reason=_first_error(errors) if is_broken else None,
            ),
            **({} if stop is None or is_broken else _stopped(stop)),
        }


def _path(nodes: list[Mapping[str, Any]], leaf: int | None) -> list[dict[str, Any]]:
    path: list[Any] = []
    index: Any = leaf
    while isinstance(index, int) and 0 <= index < len(nodes) and len(path) <= len(nodes):
        path.append(nodes[index].get("message"))
        index = nodes[index].get("parent")
    return chat_messages([each for each in reversed(path) if each is not None])


def _total(rewards: Any) -> float | None:
    """The sum of scores times weights; None where any was not made."""
    if not isinstance(rewards, Mapping) or not rewards:
        return None
    parts = []
    for part in rewards.values():
        score = part.get("score") if isinstance(part, Mapping) else part
        weight = part.get("weight", 1.0) if isinstance(part, Mapping) else 1.0
        if (
            not isinstance(score, int | float)
            or isinstance(score, bool)
            or not isinstance(weight, int | float)
        ):
            return None
        parts.append(_weighted(score, weight))
    return total(parts)


def _weighted(score: float, weight: float) -> float:
    try:
        return score * weight
    except OverflowError:
        return max(score, weight, key=abs)


def _stopped(stop: str) -> Record:
    made = ended(stop)
    return {name: made[name] for name in ("termination", "is_truncated") if made.get("is_truncated")}


def _first_error(errors: Any) -> str:
    first = errors[0] if isinstance(errors, list) and errors else None
    return str(first.get("type") if isinstance(first, Mapping) else "not ok")[:500]


def _log(value: Any, role: str) -> list[dict[str, Any]]:
    if isinstance(value, str):
        return chat_messages([{"role": role, "content": value}])
    return chat_messages(value if isinstance(value, list) else [])


FORMATS = (
    Format(
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
    ),
    Format(
        name="verifiers-1",
        title="traces of verifiers v1 and prime-rl",
        container="rollouts/step_N/train/all/traces.jsonl, one episode a line",
        detect=_detect_traces,
        read=_read_traces,
        needs_join="patches and test outputs",
        mapping={
            "group_id": "group.id, else task.key or task.hash",
            "trajectory_id": "traces[].id",
            "segment": "one row for each path of the tree of messages",
            "reward": "the sum of score times weight; null where one was not made",
            "infra_failure": "ok: false, errors",
            "messages": "nodes from the root to a leaf",
        },
    ),
)
