"""What grading a dump would take, before the first call: groups, calls, tokens, cost.

Conversations are measured on groups spread over the dump (`grading_sizes`), unless the ledger has groups that were
graded in the same way: then their calls and tokens are the measure.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gagar_cli.core.lateness import LATE
from gagar_cli.core.schema import Group, GroupKey
from gagar_cli.core.spending import Spending
from gagar_cli.core.summaries import renamed
from gagar_cli.core.text import counted
from gagar_cli.grade import GradeSettings, check_settings, wanted_columns
from gagar_cli.grader.endpoint import OFFLINE_MODEL
from gagar_cli.grader.group_judging import NO_EVIDENCE
from gagar_cli.grader.rules import GradingRules
from gagar_cli.grading_digest import digest_group
from gagar_cli.grading_kept import KeptRanking
from gagar_cli.grading_plan import Job, Plan, plan_groups
from gagar_cli.grading_sizes import GroupSize, guess, measure
from gagar_cli.io.dump import Dump, open_dump
from gagar_cli.io.ledger import read_settings, refuse_other_settings
from gagar_cli.io.patch_notes import count_patches
from gagar_cli.io.rankings import read_rankings

MAX_MEASURED_GROUPS = 50
_NO_MODEL = "no model named"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run would take."""

    model: str
    mode: str
    repeats: int
    repeat_share: float
    """Of the groups, so many are graded `repeats` times."""
    n_trajectories: int
    n_groups: int
    n_eligible: int
    n_settled: int
    """Of the eligible, those that the ledger has already."""
    n_to_grade: int
    n_to_check: int
    """Groups that cannot be ranked, whose passing attempts are checked: without leads they take no call."""
    skipped: dict[str, int]
    """Those to check among them."""
    n_candidates: int
    """Of the groups to grade."""
    basis: str
    """`measured`: from groups that the ledger has; `guessed`: from the sizes of prompts and material."""
    n_measured: int
    """Groups whose sizes, or whose calls and tokens, the estimate rests on."""
    prompt_tokens: int
    """Of the first call of a group, on average."""
    n_votes: int
    """Conversations about single attempts with leads that are part of the guess."""
    n_calls: int
    n_input_tokens: int
    n_output_tokens: int
    cost: float | None
    """With nothing read from a cache; None where no prices were given."""
    unknown: tuple[str, ...]
    """What only a model, or its endpoint, could tell: `context_length`, `price`."""
    notes: tuple[str, ...]

    def to_record(self) -> dict[str, object]:
        """The estimate as one JSON object; `model` is null where none was named."""
        model = None if self.model == _NO_MODEL else self.model
        record = renamed(asdict(self), {"skipped": "n_skipped_by_reason", "prompt_tokens": "n_prompt_tokens"})
        spending = {
            name: record.pop(name) for name in ("n_calls", "n_input_tokens", "n_output_tokens", "cost")
        }
        lists = {"unknown": list(self.unknown), "notes": list(self.notes)}
        return {"dry_run": True, **record, "model": model, **lists, "spending": spending}


def estimate(settings: GradeSettings) -> Estimate:
    """The estimate; nothing is written and no endpoint asked.

    Raises:
        UsageError: settings that cannot be carried out, or a ledger that was written under other ones.
        InputError: bad data in the dump.
        OutputError: the output could not be written.
    """
    found = _look(settings)
    plan, rules, prices = found.plan, settings.rules, settings.prices
    alike = [ranking for ranking in found.earlier.values() if _is_alike(ranking, rules)]
    graded = [ranking for ranking in alike if ranking.status == "graded" and ranking.spending.n_tokens]
    unranked = [ranking for ranking in alike if ranking.status == "skipped"]
    votes = [size.votes for size in found.check_sizes]
    n_jobs, n_checks = len(found.jobs), len(found.checks)
    n_gradings = round(_count_gradings(found.jobs, rules) * found.evident_share)
    if graded:
        spending = _measured(graded, n_gradings / _count_gradings(graded, rules))
    else:
        spending = _guess_gradings(found.sizes, n_gradings)
        spending += guess([size.votes for size in found.sizes], n_jobs * found.evident_share)
    spending += _measured(unranked, n_checks / len(unranked)) if unranked else guess(votes, n_checks)
    unknown = _unknown(settings)
    n_votes = 0 if graded else _scaled([len(size.votes) for size in found.sizes], n_jobs)
    n_votes += 0 if unranked else _scaled([len(each) for each in votes], n_checks)
    return Estimate(
        model=settings.endpoint.model or _NO_MODEL,
        mode=rules.mode,
        repeats=rules.repeats,
        repeat_share=rules.repeat_share,
        n_trajectories=plan.n_trajectories,
        n_groups=plan.n_groups,
        n_eligible=len(plan.jobs),
        n_settled=len(plan.jobs[: settings.max_groups]) - n_jobs,
        n_to_grade=n_jobs,
        n_to_check=n_checks,
        skipped=dict(Counter(ranking.reason or "" for ranking in plan.skipped).most_common()),
        n_candidates=found.n_candidates,
        basis="measured" if graded else "guessed",
        n_measured=len(graded) if graded else len(found.sizes),
        prompt_tokens=_scaled([size.gradings[0].prompt_tokens for size in found.sizes], 1),
        n_votes=n_votes,
        n_calls=spending.n_calls,
        n_input_tokens=spending.n_input_tokens,
        n_output_tokens=spending.n_output_tokens,
        cost=None if prices is None else round(spending.cost(prices), 6),
        unknown=unknown,
        notes=(*found.notes, *_notes(unknown, settings)),
    )


def _unknown(settings: GradeSettings) -> tuple[str, ...]:
    """What nobody was asked for; the offline model has no window, and its price is 0."""
    if settings.endpoint.model == OFFLINE_MODEL:
        return ()
    return ("context_length", "price") if settings.prices is None else ("context_length",)


def _notes(unknown: Sequence[str], settings: GradeSettings) -> Iterator[str]:
    name = f"model {settings.endpoint.model}" if settings.endpoint.model else "model"
    if "context_length" in unknown:
        n_tokens = settings.limits.max_context_tokens
        yield f"the context length of the {name} is not known: --max-context-tokens {n_tokens:,} is taken for it"
    if "price" in unknown:
        yield f"the price of the {name} is not known: --price-in and --price-out, or --prices and --model, tell it"


class _Found(NamedTuple):
    """What the dump and the ledger say."""

    plan: Plan
    earlier: Mapping[GroupKey, KeptRanking]
    jobs: Sequence[Job]
    """What is left to grade."""
    checks: Sequence[Job]
    """What is left to check."""
    sizes: Sequence[GroupSize]
    """Of some of the jobs."""
    check_sizes: Sequence[GroupSize]
    n_candidates: int
    evident_share: float
    """Of the groups that are to be graded, those that do not end without a call: estimated from some."""
    notes: Sequence[str]


def _look(settings: GradeSettings) -> _Found:
    condition, shard = check_settings(settings)
    rules = settings.rules
    with open_dump(settings.dumps, wanted_columns(settings, condition)) as dump:
        plan = plan_groups(dump, condition=condition, shard=shard, integrity=rules.integrity)
        earlier = _earlier_rankings(settings)
        jobs = [job for job in plan.jobs[: settings.max_groups] if not _is_settled(job, dump, earlier)]
        # As in a run: with a limit on groups none is only checked.
        checks = plan.checks if settings.max_groups is None else ()
        checks = tuple(job for job in checks if not _is_settled(job, dump, earlier))
        sized = partial(measure, rules=rules, limits=settings.limits, seed=settings.seed)
        groups = [job.read(dump) for job in _spread(jobs)]
        sizes = [sized(group) for group in groups if group.has_evidence]
        check_sizes = [sized(job.read(dump), is_ranked=False) for job in _spread(checks)]
        n_candidates = _count_passing(jobs, dump)
        is_part, missing = len(groups) < len(jobs), dump.report.missing_columns
        notes = (*dump.report.notes, *_notes_of_evidence(groups, len(sizes), missing, is_part=is_part))
        share = len(sizes) / len(groups) if groups else 1.0
        return _Found(plan, earlier, jobs, checks, sizes, check_sizes, n_candidates, share, notes)


def _notes_of_evidence(
    groups: Sequence[Group], n_evident: int, missing_columns: Sequence[str], *, is_part: bool
) -> Iterator[str]:
    """What is told of some of the groups that are to be graded, of which so many have anything to judge by."""
    patches = count_patches(one for group in groups for one in group.trajectories)
    is_without = bool(groups) and not patches.has_patch
    yield from patches.notes(("model_patch",) if is_without else missing_columns, is_part=is_part)
    if n_lacking := len(groups) - n_evident:
        yield (
            f"{n_lacking:,} of {counted(len(groups), 'group', 'groups')} looked at have passing attempts without patch, messages "
            f"and test output: such groups end without a call as ungraded ({NO_EVIDENCE})"
        )


def _scaled(measured: Sequence[float], n_groups: int) -> int:
    """The sum over `n_groups`, of which some were measured."""
    return round(sum(measured) * n_groups / len(measured)) if measured else 0


def _count_gradings(groups: Sequence[Job] | Sequence[KeptRanking], rules: GradingRules) -> int:
    """How many gradings these groups take: those that are drawn for repeats take more than one."""
    return sum(rules.of_group(group.key).repeats for group in groups)


def _guess_gradings(sizes: Sequence[GroupSize], n_gradings: int) -> Spending:
    """`n_gradings` like those of the measured groups, of which as it happens more or fewer are drawn for repeats."""
    n_measured = sum(size.n_gradings for size in sizes)
    talks = [talk for size in sizes for talk in size.gradings]
    return guess([talks], n_gradings / n_measured) if n_measured else Spending()


def _measured(graded: Sequence[KeptRanking], share: float) -> Spending:
    """`share` times what these groups took."""
    total = sum((ranking.spending for ranking in graded), Spending())
    return Spending(
        n_calls=round(total.n_calls * share),
        n_input_tokens=round(total.n_input_tokens * share),
        n_cached_tokens=round(total.n_cached_tokens * share),
        n_output_tokens=round(total.n_output_tokens * share),
    )


def _earlier_rankings(settings: GradeSettings) -> dict[GroupKey, KeptRanking]:
    """What a ledger has already; nothing where there is none, or it will be replaced."""
    path = settings.ledger_path
    if path is None or settings.overwrite or not Path(path).exists():
        return {}
    rankings = {kept.key: kept for kept in map(KeptRanking.of, read_rankings(path))}
    earlier = read_settings(path)
    if rankings and earlier is not None:
        if not settings.endpoint.model:
            settings = replace(settings, endpoint=replace(settings.endpoint, model=str(earlier.get("model"))))
        # Which sandbox there will be only a run finds out.
        refuse_other_settings(path, earlier, settings.record(str(earlier.get("sandbox"))))
    return rankings


def _is_settled(job: Job, dump: Dump, earlier: Mapping[GroupKey, KeptRanking]) -> bool:
    ranking = earlier.get(job.key)
    if ranking is None or ranking.is_owed((LATE,)):
        return False
    return ranking.input_digest == digest_group(job.read(dump))


def _is_alike(ranking: KeptRanking, rules: GradingRules) -> bool:
    """Whether a group was graded, or checked, the way that is planned."""
    is_repeated = rules.of_group(ranking.key).repeats > 1
    return ranking.mode == rules.mode and ranking.is_repeated == is_repeated


def _count_passing(jobs: Sequence[Job], dump: Dump) -> int:
    passed = dump.column("passed")
    if passed is None:
        return 0
    rows = np.fromiter(chain.from_iterable(job.rows for job in jobs), dtype=np.uint32)
    return int(np.count_nonzero(passed.to_numpy()[rows]))


def _spread(jobs: Sequence[Job]) -> Sequence[Job]:
    """At most `MAX_MEASURED_GROUPS` jobs, evenly from first to last."""
    n_jobs = len(jobs)
    if n_jobs <= MAX_MEASURED_GROUPS:
        return jobs
    return [jobs[number * n_jobs // MAX_MEASURED_GROUPS] for number in range(MAX_MEASURED_GROUPS)]
