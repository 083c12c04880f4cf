"""One group graded by one function of plain values: a group in, its ranking and the whole conversation out.

This is the edge of one group's grading: whatever goes wrong inside makes this group ungraded, with the reason, and
never reaches another. Reasons start with where it broke: `endpoint`, `sandbox`, `limit`, `verdict` or `error`.
"""

import asyncio
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.schema import Group
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import EndpointError, LimitError, SandboxError, VerdictError
from gagar_cli.grader.client import EndpointClient
from gagar_cli.grader.group_judging import GroupJudging, GroupMeans, Judgement
from gagar_cli.grader.loop import GroupLimits
from gagar_cli.grader.prompts import prompt_version
from gagar_cli.grader.rules import GradingRules
from gagar_cli.grader.talks import Talks
from gagar_cli.grader.turns import count_cancellations

__all__ = ["OWED_REASONS", "GradedGroup", "GroupMeans", "grade_group"]

_DEFAULT_RULES = GradingRules()
_REASON_CHARS = 400

OWED_REASONS = ("endpoint", "sandbox", "limit", "error")
"""Groups that are ungraded for one of these are graded again by the next run; a bad verdict is final."""


@dataclass(frozen=True, slots=True)
class GradedGroup:
    """A ranking and how it came about."""

    ranking: GroupRanking
    messages: tuple[Mapping[str, Any], ...]


async def grade_group(
    group: Group,
    client: EndpointClient,
    means: GroupMeans,
    *,
    limits: GroupLimits,
    seed: int,
    rules: GradingRules = _DEFAULT_RULES,
) -> GradedGroup:
    """Grade a group: rank it where it can be ranked, check the integrity of its passing attempts.

    Budgets are for one grading; with `rules.repeats` each has its own.

    Raises:
        EndpointError: only one that every other group would meet too.
    """
    started, n_cancellations = time.monotonic(), count_cancellations()
    rules = rules.of_group(group.key)
    budget = replace(
        limits,
        max_tokens=limits.max_tokens * rules.repeats,
        max_seconds=limits.max_seconds * rules.repeats,
    )
    talks = Talks(client, budget)
    judging = GroupJudging(group, means, talks, seed, rules)
    judgement = Judgement("ungraded")
    try:
        judgement = await judging.run()
    except EndpointError as error:
        if error.is_fatal:
            raise
        judgement = _ungraded(f"endpoint: {error.message}")
    except SandboxError as error:
        judgement = _ungraded(f"sandbox: {error.message}")
    except LimitError as error:
        judgement = _ungraded(f"limit: {error.message}")
    except VerdictError as error:
        judgement = _ungraded(f"verdict: {error.message}")
    except Exception as error:  # noqa: BLE001 - the edge of one group: the others go on, the place is told
        frame = traceback.extract_tb(error.__traceback__)[-1]
        judgement = _ungraded(f"error: {type(error).__name__} in {frame.name} line {frame.lineno}: {error}")
    if judgement.status == "ungraded" and count_cancellations() > n_cancellations:
        # What broke while it was stopped is no result: the run would go on with the next group.
        raise asyncio.CancelledError
    ranking = GroupRanking(
        key=group.key,
        status=judgement.status,
        reason=judgement.reason,
        candidates=judgement.candidates,
        grader=_describe(judging, client, seconds=time.monotonic() - started),
    )
    return GradedGroup(ranking, tuple(talks.messages))


def _ungraded(reason: str) -> Judgement:
    return Judgement("ungraded", shorten(escape_untrusted(reason, keep_newlines=False), _REASON_CHARS))


def _describe(judging: GroupJudging, client: EndpointClient, *, seconds: float) -> dict[str, object]:
    """What a ranking tells of how it came about."""
    rules, usage = judging.rules, judging.talks.usage
    described: dict[str, object] = {
        "model": client.settings.model,
        "mode": rules.mode,
        "protocol": client.protocol,
        "prompt_version": prompt_version(rules.mode, rules.rubric),
        "rubric": {
            "name": rules.rubric.name,
            "hash": rules.rubric.digest,
            "dimensions": list(rules.rubric.dimensions),
        },
        "calls": usage.n_calls,
        "checks": judging.n_checks,
        "tokens": {
            "in": usage.n_input_tokens,
            "cached": usage.n_cached_tokens,
            "out": usage.n_output_tokens,
            **({"estimated": True} if usage.n_estimated_calls else {}),
        },
        "seconds": round(seconds, 3),
        "sandbox": judging.means.sandbox_name if judging.means.open_sandbox else "inspect-only",
        "blind_ids": dict(judging.workspace.trajectory_ids),
        "integrity": {
            "scope": rules.integrity,
            "votes": rules.integrity_votes,
            "n_leads": dict(judging.n_leads),
            "verdicts": list(judging.verdicts),
        },
    }
    if judging.repeats:
        described["repeats"] = list(judging.repeats)
    return described
