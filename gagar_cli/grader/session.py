"""One group graded by one function of plain values: a group in, its ranking and the whole conversation out.

This is the edge of one group's grading: whatever goes wrong inside makes this group ungraded, with the reason, and
never reaches another. Reasons start with where it broke: `endpoint`, `sandbox`, `limit`, `verdict` or `error`.
"""

import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gagar_cli.core.ranking import GroupRanking, RankedCandidate
from gagar_cli.core.schema import Group
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import EndpointError, LimitError, SandboxError, VerdictError
from gagar_cli.grader.acceptance import Acceptance
from gagar_cli.grader.checks import CheckRunner, OpenSandbox
from gagar_cli.grader.client import EndpointClient
from gagar_cli.grader.loop import Conversation, GroupLimits
from gagar_cli.grader.prompts import opening, prompt_version
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.workspace import Repository, Workspace

_REASON_CHARS = 400

OWED_REASONS = ("endpoint", "sandbox", "limit", "error")
"""Groups that are ungraded for one of these are graded again by the next run; a bad verdict is final."""


@dataclass(frozen=True, slots=True)
class GroupMeans:
    """What one group's grading may use, apart from the endpoint."""

    repository: Repository | None = None
    sandbox_name: str = "inspect-only"
    open_sandbox: OpenSandbox | None = None
    check_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class GradedGroup:
    """A ranking and how it came about."""

    ranking: GroupRanking
    messages: tuple[Mapping[str, Any], ...]


async def grade_group(
    group: Group, client: EndpointClient, means: GroupMeans, *, limits: GroupLimits, seed: int
) -> GradedGroup:
    """Grade an eligible group.

    Raises:
        EndpointError: only one that every other group would meet too.
    """
    started = time.monotonic()
    workspace = Workspace(group, seed=seed, repository=means.repository)
    checks = None
    if means.open_sandbox is not None:
        checks = CheckRunner(
            workspace, means.sandbox_name, means.open_sandbox, max_seconds=means.check_seconds
        )
    conversation = Conversation(
        opening(workspace),
        Toolbox(workspace, checks),
        Acceptance(workspace, limits.max_reasks),
        client,
        limits,
    )
    candidates: tuple[RankedCandidate, ...] = ()
    reason: str | None = None
    try:
        candidates = await conversation.run()
    except EndpointError as error:
        if error.is_fatal:
            raise
        reason = f"endpoint: {error.message}"
    except SandboxError as error:
        reason = f"sandbox: {error.message}"
    except LimitError as error:
        reason = f"limit: {error.message}"
    except VerdictError as error:
        reason = f"verdict: {error.message}"
    except Exception as error:  # noqa: BLE001 - the edge of one group: the others go on, the place is told
        frame = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"error: {type(error).__name__} in {frame.name} line {frame.lineno}: {error}"
    finally:
        if checks is not None:
            await checks.close()
    ranking = GroupRanking(
        key=group.key,
        status="ungraded" if reason else "graded",
        reason=shorten(escape_untrusted(reason, keep_newlines=False), _REASON_CHARS) if reason else None,
        candidates=candidates,
        grader={
            "model": client.settings.model,
            "protocol": "tools",
            "prompt_version": prompt_version(),
            "calls": conversation.usage.n_calls,
            "checks": checks.n_checks if checks else 0,
            "tokens": {
                "in": conversation.usage.n_input_tokens,
                "cached": conversation.usage.n_cached_tokens,
                "out": conversation.usage.n_output_tokens,
            },
            "seconds": round(time.monotonic() - started, 3),
            "sandbox": means.sandbox_name if checks else "inspect-only",
            "blind_ids": dict(workspace.trajectory_ids),
        },
    )
    return GradedGroup(ranking, tuple(conversation.messages))
