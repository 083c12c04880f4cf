"""What an audit looks at: the tasks that its policies share, a drawn sample of them, and the attempts that are judged.

Every valid attempt at a shared task counts for pass rates, turns and tokens; quality is judged on a sample of the
passing attempts at a sample of the tasks that every policy solved. Names are settled here: an attempt is known to the
judge's side by an id that says nothing, and the key from ids to policies is a value of its own.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import polars as pl

from gagar_cli.core.sampling import draw
from gagar_cli.core.schema import Group, GroupKey
from gagar_cli.core.scrubbing import Scrubber, find_leak, scrub_trajectory
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from gagar_cli.io.extras import extra_column
from gagar_cli.io.packed_logs import LogStore

NAMING_COLUMNS = ("model_name_or_path", "model", "system", "run", "policy", "checkpoint", "agent")
"""Columns whose values may name a policy: they are scrubbed wherever a dump has them as text."""
_PLAIN_LABELS = """
old new base baseline before after first second third control treatment candidate current previous next left right dump
dumps rollouts trajectories predictions preds results output train test eval run runs model policy main dev best last
latest final good bad slow fast small large one two both all ref reference data source target
"""
"""Labels of policies that say nothing, and that code and prose need."""
_TASK = "instance_id"
_MAX_LISTED = 10
_TELLING_CHARS = 6


@dataclass(frozen=True, slots=True)
class Source:
    """Where the attempts of an audit come from: several dumps, one a policy, or one dump with a column of policies."""

    dumps: tuple[tuple[str, tuple[str, ...]], ...]
    """(policy, its files); a single entry with the policy "" for a dump that holds several."""
    policies: tuple[str, ...] = ()
    """With one dump: the policies that are compared, in order; none: all that it has."""
    policy_field: str = "model_name_or_path"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a shared task, with what the index tells of it."""

    attempt_id: str
    """Says nothing about its policy."""
    policy: str
    trajectory_id: str
    dump: int
    row: int
    passed: bool
    is_sampled: bool
    n_turns: int | None
    n_output_tokens: int | None


class TaskPlan(NamedTuple):
    """One shared task."""

    task_id: str
    is_sampled: bool
    attempts: tuple[Attempt, ...]

    @property
    def sampled(self) -> tuple[Attempt, ...]:
        """The attempts that are judged."""
        return tuple(one for one in self.attempts if one.is_sampled)


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """The tasks of an audit, and what was left out."""

    policies: tuple[str, ...]
    tasks: tuple[TaskPlan, ...]
    names: tuple[str, ...]
    """What names a policy: texts of the dumps' columns, and labels and file names that could stand for nothing else."""
    hints: tuple[str, ...]
    """Labels and file names that are plain words: they are kept out of prose."""
    n_tasks_by_policy: Mapping[str, int]
    notes: tuple[str, ...]

    @property
    def sampled(self) -> tuple[TaskPlan, ...]:
        """The tasks that are judged."""
        return tuple(task for task in self.tasks if task.is_sampled)


class Matched(NamedTuple):
    """The tasks of the policies."""

    policies: tuple[str, ...]
    n_tasks_by_policy: Mapping[str, int]
    shared: Mapping[str, pl.DataFrame]
    """Task to its attempts, where every policy has one."""


def open_dumps(source: Source, read: ReadOptions, stack: ExitStack) -> list[Dump]:
    """The dumps of an audit with the columns that it needs.

    Raises:
        UsageError, InputError, OutputError: as `open_dump`.
    """
    extras = tuple(dict.fromkeys((_TASK, source.policy_field, *NAMING_COLUMNS)))
    options = replace(read, extras=extras)
    return [stack.enter_context(open_dump(paths, options)) for _, paths in source.dumps]


def match_tasks(source: Source, dumps: Sequence[Dump]) -> Matched:
    """The tasks that the policies share, by `instance_id`, else by the group key.

    Raises:
        UsageError: a policy that no attempt has, or fewer than two policies.
    """
    table = pl.concat([_read_attempts(source, dumps, number) for number in range(len(dumps))])
    policies = _choose_policies(source, table)
    table = table.filter(pl.col("policy").is_in(policies))
    by_task = {str(task_id): rows for (task_id,), rows in table.group_by("task", maintain_order=True)}
    shared = {task: rows for task, rows in by_task.items() if rows["policy"].n_unique() == len(policies)}
    counts = {policy: table.filter(pl.col("policy") == policy)["task"].n_unique() for policy in policies}
    return Matched(policies, counts, shared)


def plan_audit(
    source: Source,
    dumps: Sequence[Dump],
    *,
    n_tasks: int | None,
    per_task: int,
    seed: int,
    hint: Callable[[], str] = lambda: "tasks are matched by `instance_id`, else by the group key",
) -> AuditPlan:
    """The shared tasks and the sample; `hint` is asked for where there is none.

    Raises:
        UsageError: a policy that no attempt has, or fewer than two policies.
        InputError: the policies share no task.
    """
    policies, counts, shared = match_tasks(source, dumps)
    if not shared:
        told = ", ".join(f"{_shown(policy)} has {n}" for policy, n in counts.items())
        raise InputError(f"the policies share no task ({told})", hint())
    solved = [
        task for task, rows in shared.items() if rows.filter("passed")["policy"].n_unique() == len(policies)
    ]
    chosen = set(draw(solved, n_tasks, seed=seed))
    tasks = tuple(
        _plan_task(task, rows, is_sampled=task in chosen, per_task=per_task, seed=seed)
        for task, rows in shared.items()
    )
    notes = [note for dump in dumps for note in dump.report.notes]
    if not solved:
        notes.append(f"no task of {len(shared)} is solved by all policies: no quality can be compared")
    labels = _labels(source)
    names = (*_names(dumps, source), *(one for one in labels if _is_telling(one)))
    hints = tuple(one for one in labels if not _is_telling(one) and one.lower() not in _PLAIN_LABELS.split())
    return AuditPlan(policies, tasks, names, hints, counts, tuple(notes))


def read_group(task: TaskPlan, dumps: Sequence[Dump], scrubber: Scrubber, *, shows: str) -> Group:
    """The sampled attempts of a task as a group whose ids and texts name no policy; long logs are out of memory.

    Raises:
        InputError: a record cannot be read, or a name is left in what the judge would see.
        OutputError: the temporary directory has no space for long logs.
    """
    found = {}
    for number, dump in enumerate(dumps):
        wanted = [one for one in task.sampled if one.dump == number]
        for one, pair in zip(wanted, dump.read_trajectories([one.row for one in wanted]), strict=True):
            found[one.attempt_id] = pair
    store = LogStore()
    trajectories = [
        store.packed(replace(scrub_trajectory(trajectory, scrubber, shows=shows), trajectory_id=attempt_id))
        for attempt_id, (_, trajectory) in sorted(found.items())
    ]
    first_task = found[task.sampled[0].attempt_id][0]
    group = Group(GroupKey(None, task.task_id), first_task, tuple(trajectories))
    leak = find_leak(group, scrubber)
    if leak is not None:
        place, name = leak
        raise InputError(
            f"task {_shown(task.task_id)}: {_shown(place)} still says {_shown(name)}, which names a policy",
            "add the form in which it stands there with `--scrub`, or judge less with `--show patch`",
        )
    return group


def _read_attempts(source: Source, dumps: Sequence[Dump], number: int) -> pl.DataFrame:
    """The valid trajectories of a dump: policy, task, row and what the index tells."""
    name, _ = source.dumps[number]
    index = dumps[number].full_index().with_row_index("row").filter(pl.col("row") == pl.col("primary_row"))
    task = extra_column(_TASK)
    policy = pl.lit(name) if name else pl.col(extra_column(source.policy_field)).cast(pl.String)
    return index.filter(~pl.col("invalid")).select(
        policy.alias("policy"),
        pl.coalesce(pl.col(task).cast(pl.String), pl.col("group_id")).alias("task"),
        pl.lit(number).alias("dump"),
        pl.col("row").cast(pl.Int64),
        pl.col("step").cast(pl.Int64),
        "group_id",
        "trajectory_id",
        "passed",
        "n_turns",
        "n_output_tokens",
    )


def _choose_policies(source: Source, table: pl.DataFrame) -> tuple[str, ...]:
    present = table["policy"].drop_nulls().unique(maintain_order=True).to_list()
    if len(source.dumps) > 1:
        return tuple(name for name, _ in source.dumps)
    listed = ", ".join(_shown(name) for name in present[:_MAX_LISTED]) or "none"
    for name in source.policies:
        if name not in present:
            raise UsageError(
                f"no attempt is of policy {_shown(name)}, {source.policy_field} has {listed}",
                "`--policy-field` names the column",
            )
    chosen = source.policies or tuple(present)
    if len(chosen) < 2:
        raise UsageError(
            f"one policy is not compared with anything, {source.policy_field} has {listed}",
            "give two dumps, or name the column of policies with `--policy-field`",
        )
    return tuple(chosen)


def _plan_task(task_id: str, rows: pl.DataFrame, *, is_sampled: bool, per_task: int, seed: int) -> TaskPlan:
    columns = ("dump", "step", "group_id", "trajectory_id")
    names = [_blind_name(seed, task_id, *key) for key in rows.select(*columns).iter_rows()]
    passing: dict[str, list[str]] = {}
    for name, policy, passed in zip(names, rows["policy"], rows["passed"], strict=True):
        if passed and is_sampled:
            passing.setdefault(policy, []).append(name)
    chosen = {
        one for of_policy in passing.values() for one in draw(of_policy, per_task, seed=seed, salt=task_id)
    }
    attempts = tuple(
        Attempt(
            attempt_id=name,
            policy=row["policy"],
            trajectory_id=row["trajectory_id"],
            dump=row["dump"],
            row=row["row"],
            passed=row["passed"],
            is_sampled=name in chosen,
            n_turns=row["n_turns"],
            n_output_tokens=row["n_output_tokens"],
        )
        for name, row in zip(names, rows.iter_rows(named=True), strict=True)
    )
    return TaskPlan(task_id, is_sampled, attempts)


def _blind_name(*parts: object) -> str:
    text = "\x1f".join(str(part) for part in parts)
    return "a" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:15]


def _names(dumps: Sequence[Dump], source: Source) -> tuple[str, ...]:
    """All texts of the columns that may name a policy."""
    columns = [extra_column(name) for name in dict.fromkeys((source.policy_field, *NAMING_COLUMNS))]
    names: dict[str, None] = {}
    for dump in dumps:
        for column in columns:
            values = dump.extras()[column]
            if values.dtype == pl.String:
                names.update(dict.fromkeys(values.drop_nulls().unique(maintain_order=True)))
    return tuple(names)


def _labels(source: Source) -> tuple[str, ...]:
    """What policies are called on the command line, and their files."""
    labels: dict[str, None] = {}
    for name, paths in source.dumps:
        if name:
            labels.update(dict.fromkeys((name, *(Path(path).name.partition(".")[0] for path in paths))))
    return tuple(one for one in labels if one and one != "-")


def _is_telling(label: str) -> bool:
    """Whether a label is more than a word: several words, or a word with a number, that code has no use for."""
    words = re.findall(r"[^\W\d_]+|\d+", label)
    return len(words) > 1 and sum(map(len, words)) >= _TELLING_CHARS


def _shown(text: str) -> str:
    return f'"{shorten(escape_untrusted(text, keep_newlines=False), 80)}"'
