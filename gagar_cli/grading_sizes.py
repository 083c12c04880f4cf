"""How large a group's grading is before the first call: the conversations that the rules hold about it, in tokens.

Prompts are measured as they would be sent: rules, first message and tool schemas, in the modes without tools with all
of their material. Of what a judge with tools reads, the patch, its share of the log and the test output of each attempt
are counted as the tools would page them; how it goes through them is a guess. Votes are counted where they are sure to
be asked for: one on each attempt with leads, where the judge sees no turns or there is no ranking. Those on violations
that a judge with tools proves come on top.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gagar_cli.core.schema import Group, Trajectory
from gagar_cli.core.spending import Spending
from gagar_cli.core.tampering import find_tampering
from gagar_cli.grader.loop import GroupLimits
from gagar_cli.grader.material import compose_material
from gagar_cli.grader.modes import material_chars, show_only
from gagar_cli.grader.prompts import VOTE, opening
from gagar_cli.grader.rules import GradingRules
from gagar_cli.grader.tool_schemas import SUBMIT, submit_schema, vote_schema
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.workspace import Workspace

CHARS_PER_TOKEN = 3.5
"""Of code and logs; prose has about 4."""
_PATCH_CHARS, _LOG_CHARS, _TEST_CHARS = 12_000, 6_000, 4_000
"""What a judge with tools is assumed to read of one attempt: at most a page or so of each."""
_REFERENCE_SHARE = 0.25
"""Failing attempts are context, read less."""
_SUBMISSION_TOKENS, _CALL_TOKENS = 250, 120
"""Written for each attempt in the submission, and in each call before it."""
_MORE_CALLS = 4
"""Of a judge with tools, beside one for each attempt that it judges."""


@dataclass(frozen=True, slots=True)
class Talk:
    """One conversation, in tokens."""

    prompt_tokens: float
    """Of the first call."""
    material_tokens: float
    """Read with the tools, over the calls that follow."""
    n_calls: int
    n_judged: int


@dataclass(frozen=True, slots=True)
class GroupSize:
    """The conversations that one group takes."""

    gradings: tuple[Talk, ...]
    """Of all repeats."""
    votes: tuple[Talk, ...]
    n_gradings: int
    """Repeats of the group; 0 where it is only checked."""


def measure(
    group: Group, rules: GradingRules, limits: GroupLimits, *, seed: int = 0, is_ranked: bool = True
) -> GroupSize:
    """The conversations about a group; `is_ranked`: it is not only checked for integrity."""
    workspace = Workspace(group, seed=seed, repository=None)
    votes: tuple[Talk, ...] = ()
    # A judge that sees the turns itself puts to the vote only what it proves.
    if rules.integrity != "off" and (rules.is_static or not is_ranked):
        votes = tuple(
            _vote(show_only(workspace, name)) for name in workspace.candidates if _has_leads(workspace, name)
        )
    gradings = _gradings(workspace, rules, limits) if is_ranked else []
    repeats = rules.of_group(group.key).repeats
    return GroupSize(tuple(gradings) * repeats, votes, repeats if is_ranked else 0)


def guess(sizes: Sequence[Iterable[Talk]], n_groups: float) -> Spending:
    """What `n_groups` like these would take, where every call sends the whole conversation again.

    The material of a conversation comes in evenly over its calls.
    """
    if not sizes:
        return Spending()
    n_calls = n_input = n_output = 0.0
    for talk in (talk for size in sizes for talk in size):
        # The last call submits.
        written = _CALL_TOKENS * talk.n_calls if talk.n_calls > 1 else 0
        n_calls += talk.n_calls
        n_input += (
            talk.n_calls * talk.prompt_tokens + (talk.material_tokens + written) * (talk.n_calls - 1) / 2
        )
        n_output += written + _SUBMISSION_TOKENS * talk.n_judged
    share = n_groups / len(sizes)
    return Spending(
        n_calls=round(n_calls * share),
        n_input_tokens=round(n_input * share),
        n_output_tokens=round(n_output * share),
    )


def _gradings(workspace: Workspace, rules: GradingRules, limits: GroupLimits) -> list[Talk]:
    """The conversations of one grading."""
    if rules.is_pointwise:
        return [_grading(show_only(workspace, name), rules, limits) for name in workspace.candidates]
    return [_grading(workspace, rules, limits)]


def _grading(workspace: Workspace, rules: GradingRules, limits: GroupLimits) -> Talk:
    submit, n_judged = submit_schema(rules.rubric), len(workspace.candidates)
    if rules.is_static:
        toolbox = Toolbox(workspace, None, only=(SUBMIT,), submit=submit)
        max_chars = material_chars(workspace, toolbox, rules, limits.max_context_tokens)
        messages = opening(workspace, rules.mode, rules.rubric, compose_material(workspace, max_chars))
        return Talk(_tokens(messages, toolbox.schemas), 0.0, 1, n_judged)
    messages = opening(workspace, rules.mode, rules.rubric)
    schemas = Toolbox(workspace, None, submit=submit).schemas
    return Talk(_tokens(messages, schemas), _material_tokens(workspace), _MORE_CALLS + n_judged, n_judged)


def _vote(workspace: Workspace) -> Talk:
    schemas = Toolbox(workspace, None, submit=vote_schema()).schemas
    prompt_tokens = _tokens(opening(workspace, VOTE), schemas)
    return Talk(prompt_tokens, _material_tokens(workspace), _MORE_CALLS + 1, 1)


def _has_leads(workspace: Workspace, name: str) -> bool:
    attempt = workspace.attempts[name]
    return bool(attempt.leads or find_tampering(attempt.patch))


def _material_tokens(workspace: Workspace) -> float:
    n_chars = float(min(len(workspace.problem_statement), _PATCH_CHARS))
    for name, attempt in workspace.attempts.items():
        share = 1.0 if name in workspace.candidates else _REFERENCE_SHARE
        n_chars += share * _read_chars(attempt.trajectory)
    return n_chars / CHARS_PER_TOKEN


def _read_chars(trajectory: Trajectory) -> int:
    n_log_chars = 0
    for message in trajectory.messages:
        n_log_chars += len(message.content)
        if n_log_chars >= _LOG_CHARS:
            break  # a log out of memory is not brought in to measure what nobody reads
    return (
        min(len(trajectory.model_patch or ""), _PATCH_CHARS)
        + min(n_log_chars, _LOG_CHARS)
        + min(len(trajectory.test_output or ""), _TEST_CHARS)
    )


def _tokens(messages: Sequence[dict[str, str]], schemas: Sequence[object]) -> float:
    n_chars = sum(len(message["content"]) for message in messages) + len(json.dumps(list(schemas)))
    return n_chars / CHARS_PER_TOKEN
