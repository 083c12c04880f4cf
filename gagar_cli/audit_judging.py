"""The judging of an audit: every sampled task before every judge, each judgment on disk the moment it is made."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, product
from pathlib import Path

from gagar_cli.audit_plan import TaskPlan
from gagar_cli.core.blinding import permute
from gagar_cli.core.schema import Group, GroupKey
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grader.loop import Usage
from gagar_cli.grading_digest import digest_group
from gagar_cli.grading_record import RunRecord
from gagar_cli.group_grading import GroupGrader, GroupGraderSettings
from gagar_cli.progress import ProgressCallback
from gagar_cli.side_by_side import count_open, run_side_by_side


@dataclass(frozen=True, slots=True)
class Judging:
    """What every judge judges, and where it is kept."""

    directory: Path
    tasks: tuple[TaskPlan, ...]
    read_group: Callable[[TaskPlan], Group]
    """Blocking; the heavy columns of a task, scrubbed."""
    grader: GroupGraderSettings
    """Its endpoint is replaced by each judge."""
    judges: tuple[EndpointSettings, ...]
    config: Mapping[str, object]
    """What judgments depend on; a stopped audit goes on only under the same."""
    asked: tuple[str, ...]
    """The policies that the judge is to tell apart afterwards; none: it is not asked."""
    is_pairwise: bool
    concurrency: int
    """Calls on their way at the endpoint at a time; up to twice as many tasks are open."""
    overwrite: bool


def judgment_file(number: int) -> str:
    """The file of the judge with this number, counted from 0."""
    return "judgments.jsonl" if number == 0 else f"judgments-{number + 1}.jsonl"


async def judge_all(
    judging: Judging, progress: ProgressCallback, *, is_owned: Callable[[], None]
) -> list[str]:
    """Judge what is not judged yet; notes for people come back.

    `is_owned` is called when every judge's judgments are open, under the same settings and to nobody else: only then may
    anything else of the directory change.

    Raises:
        UsageError: judgments are there that were made under other settings.
        OutputError: they cannot be written, or another audit writes them.
        SandboxError, EndpointError: what every task would meet.
    """
    n_jobs = len(judging.tasks) * len(judging.judges)
    n_done = 0
    progress(0, n_jobs, "")

    def tell(judge: str) -> None:
        nonlocal n_done
        n_done += 1
        progress(n_done, n_jobs, judge)

    image = None
    if judging.tasks:
        image = (await asyncio.to_thread(judging.read_group, judging.tasks[0])).task.docker_image
    async with AsyncExitStack() as stack:
        opened: list[tuple[GroupGrader, RunRecord]] = []
        for number, judge in enumerate(judging.judges):
            settings = replace(judging.grader, endpoint=judge)
            grader = await stack.enter_async_context(GroupGrader(settings, dump_image=image))
            path = str(judging.directory / judgment_file(number))
            record = stack.enter_context(RunRecord(path, path, overwrite=judging.overwrite))
            record.open({**judging.config, "judge": judge.model, "sandbox": grader.backend.name})
            grader.tell_earlier(record.done.values())
            opened.append((grader, record))
        is_owned()
        for grader, record in opened:
            await _judge_tasks(judging, grader, record, partial(tell, grader.settings.endpoint.model))
        notes = [note for _, record in opened for note in record.notes]
        notes += [note for grader, _ in opened for note in grader.backend.notes]
        for grader, _ in opened:
            notes += grader.notes_of(f"judge {grader.settings.endpoint.model}" if len(opened) > 1 else "")
    return list(dict.fromkeys(notes))


async def _judge_tasks(
    judging: Judging, grader: GroupGrader, record: RunRecord, tell: Callable[[], None]
) -> None:
    waiting = iter(judging.tasks)
    reading = asyncio.Lock()

    async def work() -> None:
        for task in waiting:
            async with reading:
                group = await asyncio.to_thread(judging.read_group, task)
            parts = split_pairs(group, grader.settings.seed, task) if judging.is_pairwise else [group]
            for part in parts:
                await _judge(part, grader, record, judging.asked)
            tell()

    await run_side_by_side(work() for _ in range(count_open(len(judging.tasks), judging.concurrency)))


async def _judge(group: Group, grader: GroupGrader, record: RunRecord, policies: tuple[str, ...]) -> None:
    input_digest = await asyncio.to_thread(digest_group, group)
    earlier = record.settled(group.key, input_digest)
    if earlier is not None:
        await record.keep_settled(earlier)
        return
    graded = await grader.grade(group)
    about = dict(graded.ranking.grader)
    if policies and graded.ranking.status == "graded":
        guess = await grader.guess(group, graded, policies)
        # By number, as nothing in the judgments names a policy; the key has the names in this order.
        named = guess.policies or {}
        about["guesses"] = {name: policies.index(policy) for name, policy in named.items()}
        about |= _add_usage(about, guess.usage)
    ranking = replace(
        graded.ranking, grader=about, input_digest=input_digest, config_digest=record.config_digest
    )
    await record.keep(ranking, graded.messages)


def _add_usage(about: Mapping[str, object], usage: Usage) -> dict[str, object]:
    """Calls and tokens of a ranking with those of the question after it."""
    calls, tokens = about.get("calls"), about.get("tokens")
    if not isinstance(calls, int) or not isinstance(tokens, Mapping):
        return {}
    more = {"in": usage.n_input_tokens, "cached": usage.n_cached_tokens, "out": usage.n_output_tokens}
    return {
        "calls": calls + usage.n_calls,
        "tokens": {name: n + more.get(name, 0) for name, n in tokens.items()},
    }


def split_pairs(group: Group, seed: int, task: TaskPlan) -> Iterator[Group]:
    """Every two attempts of different policies, as two groups that are shown in opposite orders.

    A group's `step` numbers it within the task; which numbers are taken makes the order, as the blind order is keyed
    by the group.
    """
    policy_of = {one.attempt_id: one.policy for one in task.sampled}
    ids = sorted(one.trajectory_id for one in group.trajectories)
    by_id = {one.trajectory_id: one for one in group.trajectories}
    steps = count()
    for first, second in product(ids, ids):
        if policy_of[first] >= policy_of[second]:
            continue
        pair = (by_id[first], by_id[second])
        for leader in (first, second):
            key = next(
                key
                for key in (GroupKey(step, task.task_id) for step in steps)
                if permute([first, second], seed, key)[0] == leader
            )
            yield Group(key, group.task, pair)
