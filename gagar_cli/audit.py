"""The audit: policies compared blind on the tasks that they share, and how sure the answer is.

First the judging: each sampled task's attempts go to the grader side by side, names scrubbed, and each judgment is on
disk the moment it is made. The key from ids to policies is written apart. Then the report, which is made from these
files alone: `unblind` repeats it without an endpoint, to the same figures.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from gagar_cli import __version__
from gagar_cli.audit_judges import current_judgments
from gagar_cli.audit_judging import Judging, judge_all, judgment_file
from gagar_cli.audit_key import AuditKey, KeyedAttempt, KeyedTask, read_key
from gagar_cli.audit_matching import matching_hint
from gagar_cli.audit_plan import AuditPlan, Source, open_dumps, plan_audit, read_group
from gagar_cli.audit_summary import AuditResult, summarise
from gagar_cli.core.gates import Gate, GateResult, check_gate, parse_gate
from gagar_cli.core.kinship import find_kin
from gagar_cli.core.patch import parse_patch
from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.scrubbing import MIN_NAME_CHARS, Scrubber
from gagar_cli.errors import InputError, OutputError, UsageError
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grader.prompts import prompt_version
from gagar_cli.group_grading import GroupGraderSettings
from gagar_cli.interrupts import run_interruptibly
from gagar_cli.io.dump import Dump, ReadOptions
from gagar_cli.io.rankings import latest_rankings, read_rankings
from gagar_cli.io.streams import show_path
from gagar_cli.io.writers import refuse_existing, write_atomically, write_summary_file
from gagar_cli.own_inputs import refuse_own_inputs
from gagar_cli.progress import ProgressCallback, no_progress
from gagar_cli.report.audit_page import audit_page
from gagar_cli.report.ci import junit_document, markdown_summary

Shows = Literal["patch", "patch+tests", "full"]
_KEY, _SUMMARY, _PAGE = "key.json", "summary.json", "report.html"


@dataclass(frozen=True, slots=True)
class CiFiles:
    """Files for a pipeline, beside those of the directory."""

    junit: str | None = None
    markdown: str | None = None


NO_FILES = CiFiles()


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """What `gagar audit` was asked to do."""

    source: Source
    output: str
    """A directory."""
    grader: GroupGraderSettings
    judges: tuple[EndpointSettings, ...]
    """Each judges every task; the grader's own endpoint is not used."""
    read: ReadOptions = field(default_factory=ReadOptions)
    n_tasks: int | None = 30
    """Tasks that are judged; None: all that every policy solved."""
    per_task: int = 3
    """Passing attempts of each policy that are judged a task."""
    seed: int = 0
    """Of the sample, the blind order and the resampling."""
    shows: Shows = "patch+tests"
    scrub: tuple[str, ...] = ()
    """More names to take out, beside those that the dumps' columns hold."""
    is_pairwise: bool = False
    """Two attempts at a time, in both orders, instead of all of a task side by side."""
    is_guess_asked: bool = True
    """Ask the judge afterwards which policy it thinks each attempt is of."""
    gates: tuple[str, ...] = ()
    files: CiFiles = NO_FILES
    concurrency: int = 8
    overwrite: bool = False

    def record(self, policies: Sequence[str]) -> dict[str, object]:
        """What the judgments depend on beside judge and sandbox: an audit goes on only under the same settings."""
        endpoint = self.judges[0]
        return {
            "gagar": __version__,
            "policies": list(policies),
            "protocol": endpoint.protocol,
            "temperature": endpoint.temperature,
            "model_seed": endpoint.seed,
            "extra_body": dict(endpoint.extra_body),
            "prompt_version": prompt_version(self.grader.rules.mode, self.grader.rules.rubric),
            **self.grader.rules.record(),
            "n_tasks": self.n_tasks,
            "per_task": self.per_task,
            "seed": self.seed,
            "shows": self.shows,
            "scrub": list(self.scrub),
            "pairwise": self.is_pairwise,
            "guess": self.is_guess_asked,
            "has_repos": self.grader.repos is not None,
        }


def run(settings: AuditSettings, progress: ProgressCallback = no_progress) -> AuditResult:
    """Judge what is not judged yet, then report.

    Raises:
        UsageError: settings that cannot be carried out, or judgments made under other ones.
        InputError: bad data in a dump, no shared task, or a policy's name that scrubbing left.
        OutputError: the directory cannot be written, or another audit works in it.
        SandboxError, EndpointError: what every task would meet.
    """
    gates = [parse_gate(text) for text in settings.gates]
    _check_names(settings.scrub)
    directory = _make_directory(settings.output)
    inputs = [path for _, paths in settings.source.dumps for path in paths]
    inputs += settings.read.joins
    files = [_KEY, _SUMMARY, _PAGE, *map(judgment_file, range(len(settings.judges)))]
    refuse_own_inputs(settings.output, inputs, files=files)
    for flag, path in (("--junit", settings.files.junit), ("--markdown", settings.files.markdown)):
        if path is not None:
            refuse_own_inputs(path, inputs, flag=flag)
            refuse_existing(path, overwrite=True)
    with ExitStack() as stack:
        dumps = open_dumps(settings.source, settings.read, stack)
        plan = plan_audit(
            settings.source,
            dumps,
            n_tasks=settings.n_tasks,
            per_task=settings.per_task,
            seed=settings.seed,
            hint=partial(matching_hint, settings.source, settings.read),
        )
        scrubber = Scrubber([*plan.names, *settings.scrub], plan.hints)
        key = _make_key(settings, plan, dumps, scrubber)
        # A gate that names nothing is refused before the first call.
        check_gates(gates, summarise(key, [[] for _ in settings.judges]).to_record())
        judging = Judging(
            directory,
            plan.sampled,
            partial(read_group, dumps=dumps, scrubber=scrubber, shows=settings.shows),
            replace(
                settings.grader, seed=settings.seed, rules=replace(settings.grader.rules, ranks_all_pass=True)
            ),
            settings.judges,
            settings.record(plan.policies),
            plan.policies if settings.is_guess_asked else (),
            settings.is_pairwise,
            settings.concurrency,
            settings.overwrite,
        )
        if not settings.overwrite:
            key = _with_earlier_notes(key, directory)
        write_key = partial(_write_json, directory / _KEY, key.to_record())
        notes = run_interruptibly(judge_all(judging, progress, is_owned=write_key))
    # The report is made from the directory alone, so what was learnt on the way is kept there.
    key = replace(key, notes=tuple(dict.fromkeys((*key.notes, *notes))))
    _write_json(directory / _KEY, key.to_record())
    return unblind(settings.output, settings.gates, settings.files)


def unblind(output: str, gates: Sequence[str] = (), files: CiFiles = NO_FILES) -> AuditResult:
    """The report of an audit from its stored judgments and key.

    Raises:
        UsageError: a gate names nothing.
        InputError: the key or a judgment is missing or damaged.
        OutputError: the report cannot be written.
    """
    directory = Path(output)
    key = read_key(directory / _KEY)
    judgments = [
        current_judgments(key, _read_judgments(str(directory / name))) for name in key.judgment_files
    ]
    result = summarise(key, judgments)
    checked = check_gates([parse_gate(text) for text in gates], result.to_record())
    result = replace(result, gates=tuple(checked))
    write_summary_file(directory / _SUMMARY, result.to_record())
    with write_atomically(directory / _PAGE) as stream:
        stream.write(audit_page(result, key, judgments).encode("utf-8", "backslashreplace"))
    if files.junit is not None:
        with write_atomically(files.junit) as stream:
            stream.write(junit_document(result))
    if files.markdown is not None:
        with write_atomically(files.markdown) as stream:
            stream.write(markdown_summary(result).encode("utf-8", "backslashreplace"))
    return result


def _read_judgments(path: str) -> list[GroupRanking]:
    try:
        return list(latest_rankings(read_rankings(path)).values())
    except InputError as error:
        if "no newline" not in error.message:
            raise
        raise InputError(
            error.message,
            "the audit was stopped while it wrote: repeat its command, which goes on from there",
        ) from error


def check_gates(gates: Sequence[Gate], record: Mapping[str, object]) -> list[GateResult]:
    """What each gate meets in a summary.

    Raises:
        UsageError: a gate names nothing of it.
    """
    return [check_gate(gate, record) for gate in gates]


def _make_key(
    settings: AuditSettings, plan: AuditPlan, dumps: Sequence[Dump], scrubber: Scrubber
) -> AuditKey:
    """The key; every sampled task is read once for it, so that a name that is left stops the audit here."""
    tasks = []
    for task in plan.tasks:
        group = read_group(task, dumps, scrubber, shows=settings.shows) if task.is_sampled else None
        patches = {one.trajectory_id: one.model_patch for one in group.trajectories} if group else {}
        attempts = tuple(
            KeyedAttempt(
                attempt_id=one.attempt_id,
                policy=one.policy,
                trajectory_id=one.trajectory_id,
                passed=one.passed,
                is_sampled=one.is_sampled,
                n_turns=one.n_turns,
                n_output_tokens=one.n_output_tokens,
                patch_lines=_count_lines(patches.get(one.attempt_id)),
            )
            for one in task.attempts
        )
        tasks.append(KeyedTask(task.task_id, task.is_sampled, attempts))
    return AuditKey(
        policies=plan.policies,
        judges=tuple(judge.model for judge in settings.judges),
        judgment_files=tuple(judgment_file(number) for number in range(len(settings.judges))),
        tasks=tuple(tasks),
        seed=settings.seed,
        shows=settings.shows,
        is_pairwise=settings.is_pairwise,
        n_tasks_by_policy=plan.n_tasks_by_policy,
        scrubbed=(*scrubber.names, *scrubber.hints),
        dimensions=tuple(settings.grader.rules.rubric.weights),
        notes=(*plan.notes, *_kin_notes(settings.judges, plan)),
    )


def _with_earlier_notes(key: AuditKey, directory: Path) -> AuditKey:
    """The key with what an audit that is gone on with has learnt, where it started from the same."""
    try:
        earlier = read_key(directory / _KEY)
    except InputError:
        return key
    is_same_start = earlier.notes[: len(key.notes)] == key.notes
    return replace(key, notes=earlier.notes) if is_same_start else key


def _kin_notes(judges: Sequence[EndpointSettings], plan: AuditPlan) -> list[str]:
    """A judge that may be of a policy's family is named, as judges tend to prefer their own kind."""
    return [
        f"judge {judge.model} shares the name {word!r} with {name}: it may prefer its own kind"
        for judge in judges
        for name, word in find_kin(judge.model, dict.fromkeys((*plan.policies, *plan.names)))
    ]


def _count_lines(patch: str | None) -> int | None:
    return None if patch is None else sum(file.n_added + file.n_removed for file in parse_patch(patch).files)


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if len(name.strip()) < MIN_NAME_CHARS:
            raise UsageError(f"--scrub is {name!r}, expected at least {MIN_NAME_CHARS} characters")


def _make_directory(output: str) -> Path:
    directory = Path(output)
    try:
        directory.mkdir(exist_ok=True)
    except FileExistsError as error:
        raise OutputError(f"{show_path(output)}: is a file, expected a directory") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OutputError(f"{show_path(output)}: cannot be made: {reason}") from error
    return directory


def _write_json(path: Path, record: Mapping[str, object]) -> None:
    with write_atomically(path) as stream:
        stream.write(json.dumps(record, indent=2, ensure_ascii=True, allow_nan=False).encode() + b"\n")
