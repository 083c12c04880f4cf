"""Traces of verifiers v1, which prime-rl writes too: one episode a line.

A trace is a tree of messages: each path from the root to a leaf is what the model saw, so each becomes one row, told
apart by `segment`. A reward that was not made is null. Errors of attempts that were tried again stay in the list beside
the one that came through: whether a trace is broken is what `ok` says. A judge's or a simulated user's trace is masked.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gagar_cli.core.messages import chat_messages, json_text
from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Context, Format, Lift, Record, Row, known
from gagar_cli.io.formats.files import NativeFile, Sample
from gagar_cli.io.formats.parts import (
    ended,
    finished,
    instance_of,
    objects,
    prompt_key,
    statement_of,
    text_or_none,
)
from gagar_cli.io.formats.values import reward_of, total
from gagar_cli.io.records import MISSING, placed
from gagar_cli.io.streams import show_path

_FOLDER = re.compile(r"step_(\d{1,18})")
_LIMITS = {
    "max_turns": "truncated_turns",
    "max_input_tokens": "truncated_context",
    "max_output_tokens": "truncated_context",
    "max_total_tokens": "truncated_context",
    "compaction_failed": "truncated_context",
}
_BROKEN_STAGES = ("setup_timeout", "finalize_timeout", "scoring_timeout")
"""Out of time where no model was asked: that says nothing about the attempt."""


def _detect_traces(sample: Sample) -> str | None:
    if sample.container != "lines":
        return None
    if {"traces", "task"} <= sample.keys and {"env", "group"} & sample.keys:
        return "traces and task: episodes of verifiers v1 or prime-rl"
    return "nodes and calls: a bare trace" if {"nodes", "calls", "rewards"} <= sample.keys else None


def _read_traces(file: NativeFile, context: Context) -> Iterator[Row]:
    for number, value, error in objects(file, "an episode of verifiers"):
        if error is not None:
            yield Row(number, error)
            continue
        episode = value if "traces" in value else {"traces": [value], "task": value.get("task", MISSING)}
        told = episode.get("task", MISSING)
        task = told if isinstance(told, Mapping) else {}
        grouped = episode.get("group")
        group = grouped.get("id") if isinstance(grouped, Mapping) else None
        key = group or task.get("key") or task.get("hash")
        try:
            group_key = str(key) if key else prompt_key(told, "task", context)
        except InputError as problem:
            yield Row(number, placed(problem, f"{file.name}:{number}"))
            continue
        step = _step(value, file.path)
        whole: Record = {
            "group_id": group_key,
            "group_id_source": "field:group.id" if group else "field:task.key" if key else "equal_prompt",
            **_task(task),
            **known(step=step),
            "source_format": "verifiers-1",
        }
        traces = episode.get("traces")
        traces = traces if isinstance(traces, list) else []
        if not traces:  # it broke before any agent had a trace: an attempt all the same
            lost = {"trajectory_id": text_or_none(episode.get("id")) or str(number), "messages": []}
            why = {"infra_failure": True, "infra_failure_reason": _last_error(episode.get("errors"))}
            yield Row(number, finished(whole | lost | why, Lift(episode), context))
        names = {_agent(each) for each in traces if isinstance(each, Mapping) and _is_trained(each)}
        for place, trace in enumerate(traces):
            if not isinstance(trace, Mapping):
                yield Row(number, InputError(f"{file.name}:{number}: traces[{place}] is no object"))
                continue
            # Several policies in one episode do different things: each is compared with its own kind.
            group_id = f"{whole['group_id']}/{_agent(trace)}" if len(names) > 1 else whole["group_id"]
            broken = _episode_failure(episode) if "traces" in value else None
            try:
                branches = list(_branches(trace, f"{episode.get('id') or number}-{place}", broken))
            except InputError as problem:
                yield Row(number, placed(problem, f"{file.name}:{number}"))
                continue
            for branch in branches:
                record = whole | {"group_id": group_id} | branch
                lift = Lift({"trace": dict(trace)}, {**episode, **trace, "trace": trace})
                yield Row(number, finished(record, lift, context))


def _step(row: Mapping[str, Any], path: str) -> int | None:
    """The training step, as the run says or as prime-rl's folder is named: attempts of different policies are no group."""
    told = Lift(row).peek("run.work.step")
    if isinstance(told, int) and not isinstance(told, bool):
        return told
    found = [match[1] for part in path.split("/")[:-1] if (match := _FOLDER.fullmatch(part))]
    return int(found[-1]) if found else None


def _task(task: Mapping[str, Any]) -> Record:
    told = task.get("data")
    data = told if isinstance(told, Mapping) else {}
    return known(
        instance_id=instance_of(data) or text_or_none(task.get("key")),
        problem_statement=statement_of(data),
        repo=text_or_none(data.get("repo")),
        base_commit=text_or_none(data.get("base_commit")),
        docker_image=text_or_none(data.get("image")),
        workdir=text_or_none(data.get("workdir")),
    )


def _agent(trace: Mapping[str, Any]) -> str:
    return str(Lift(trace).peek("agent.name") or "agent")


def _is_trained(trace: Mapping[str, Any]) -> bool:
    return Lift(trace).peek("agent.trainable") is not False


def _episode_failure(episode: Mapping[str, Any]) -> str | None:
    """Why an episode as a whole came to nothing, where its own errors say so."""
    errors = episode.get("errors")
    return _last_error(errors) if episode.get("ok") is False and errors else None


def _branches(trace: Mapping[str, Any], made_id: str, broken: str | None) -> Iterator[Record]:
    """One record for each path from the root to a leaf, the final conversation last."""
    nodes = trace.get("nodes")
    # What is no node keeps its place: parents are told by number.
    nodes = [node if isinstance(node, Mapping) else {} for node in nodes] if isinstance(nodes, list) else []
    parents = {parent for node in nodes if isinstance(parent := node.get("parent"), int)}
    leaves: list[int | None] = [index for index, node in enumerate(nodes) if node and index not in parents]
    stop = text_or_none(trace.get("stop_condition"))
    broken = broken or _failure_of(trace, stop)
    lift = Lift(trace)
    tools = trace.get("tools")
    whole: Record = {
        "trajectory_id": text_or_none(trace.get("id")) or made_id,
        "reward": _total(trace.get("rewards")),
        **known(
            model_patch=_patch(lift),
            test_output=text_or_none(lift.peek("info.test_output")),
            tools=json_text(tools) if tools else None,
            exit_status=stop,
            agent_name=text_or_none(lift.peek("agent.name")),
            n_turns=sum(bool(node.get("sampled")) for node in nodes),
            n_output_tokens=lift.integer("num_output_tokens") or None,
            mask_sample=None if _is_trained(trace) else True,
            infra_failure=True if broken else None,
            infra_failure_reason=broken,
        ),
        **({} if broken else _stopped(stop, trace.get("calls"))),
    }
    for segment, leaf in enumerate(leaves or [None]):
        yield whole | {"messages": _path(nodes, leaf), **known(segment=segment or None)}


def _failure_of(trace: Mapping[str, Any], stop: str | None) -> str | None:
    """Why a trace says nothing about its attempt."""
    errors = trace.get("errors")
    if trace.get("ok") is False or ("ok" not in trace and errors):
        return _last_error(errors)
    return stop if stop in _BROKEN_STAGES else None


def _patch(lift: Lift) -> str | None:
    """The patch that the task's code left in `info`; one that was cut is none."""
    if lift.peek("info.patch_truncated") is True:
        return None
    found = lift.peek("info.model_patch", lift.peek("info.patch"))
    return found if isinstance(found, str) else None


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
    for name, part in rewards.items():
        named = f"rewards.{show_path(str(name))}"
        score = reward_of(part.get("score") if isinstance(part, Mapping) else part, named)
        weight = reward_of(part.get("weight", 1.0) if isinstance(part, Mapping) else 1.0, f"{named}.weight")
        if score is None or weight is None:
            return None
        parts.append(_weighted(score, weight))
    return total(parts)


def _weighted(score: float, weight: float) -> float:
    try:
        return score * weight
    except OverflowError:
        return max(score, weight, key=abs)


def _stopped(stop: str | None, calls: Any) -> Record:
    if stop in _LIMITS:
        return {"termination": _LIMITS[stop], "is_truncated": True}
    answered = (
        [call for call in calls if isinstance(call, Mapping) and not call.get("error")]
        if isinstance(calls, list)
        else []
    )
    if answered and answered[-1].get("finish_reason") == "length":
        return {"termination": "truncated_context", "is_truncated": True}
    made = ended(stop)
    return {name: made[name] for name in ("termination", "is_truncated") if made.get("is_truncated")}


def _last_error(errors: Any) -> str:
    last = errors[-1] if isinstance(errors, list) and errors else None
    return str(last.get("type") if isinstance(last, Mapping) else "not ok")[:500]


FORMAT = Format(
    name="verifiers-1",
    title="traces of verifiers v1 and prime-rl",
    container="traces.jsonl, rollouts/step_N/train/all/traces.jsonl, traces/step_N/train/traces.jsonl, traces/stream/*.jsonl, "
    "one episode a line",
    detect=_detect_traces,
    read=_read_traces,
    mapping={
        "group_id": "group.id, else task.key or task.hash; and the agent's name where an episode trains several",
        "step": "run.work.step, else the folder step_N",
        "trajectory_id": "traces[].id",
        "segment": "one row for each path of the tree of messages",
        "reward": "the sum of score times weight; null where one was not made",
        "infra_failure": "ok: false; no traces; setup, finalize and scoring out of time",
        "mask_sample": "agent.trainable: false",
        "is_truncated": "stop_condition, or the last call's finish_reason is length",
        "messages": "nodes from the root to a leaf",
        "model_patch, test_output": "info.patch or info.model_patch, info.test_output",
    },
)
