"""The grader's prompts: Markdown files, named in every ranking by a hash of all fixed texts that the model reads.

The system prompt is the same for every group of a mode, so that an endpoint's prefix cache can hold it. No text of a
dump is ever put into it: the grader meets it in tool results, or, in the modes without tools, in the first message
after it; behind a coordinate in both.
"""

import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from gagar_cli.core.rubric import PAPER, Rubric
from gagar_cli.grader import wording
from gagar_cli.grader.tool_schemas import (
    READING_SCHEMAS,
    RUN_CHECK_SCHEMA,
    VIEW_OUTPUT_SCHEMA,
    submit_schema,
    vote_schema,
)

if TYPE_CHECKING:
    from gagar_cli.grader.workspace import Workspace

_RUBRIC_MARK, _SCORES_MARK, _PROOF_MARK = "{{rubric}}", "{{scores}}", "{{proof}}"
_FILES = {
    "agentic": "system.md",
    "groupwise-static": "groupwise_static.md",
    "pointwise-static": "pointwise_static.md",
    "pointwise-agentic": "pointwise_agentic.md",
}
VOTE = "integrity"
"""In place of a mode: the prompt of a vote on one candidate's integrity."""


@cache
def system_prompt(mode: str = "agentic", rubric: Rubric = PAPER) -> str:
    """What the grader is told before it sees a group; the parts on scores and proof are the same in every mode."""
    dimensions = zip(rubric.weights.items(), rubric.questions, strict=True)
    lines = [f"- `{name}` ({float(weight * 100):g}%): {question}" for (name, weight), question in dimensions]
    agentic = _read("system.md")
    proof_at = agentic.index("# Proof")
    parts = {
        _SCORES_MARK: agentic[agentic.index("# Scores") : proof_at].strip(),
        _PROOF_MARK: agentic[proof_at:].strip(),
    }
    text = _read("integrity.md" if mode == VOTE else _FILES[mode])
    for mark, part in parts.items():
        text = text.replace(mark, part)
    return text.replace(_RUBRIC_MARK, "\n".join(lines))


def _read(name: str) -> str:
    return files("gagar_cli.grader.prompts").joinpath(name).read_text(encoding="utf-8")


def task_prompt(workspace: "Workspace") -> str:
    """The one line that opens a group's conversation: how many attempts there are, and nothing of theirs."""
    n_candidates, n_references = len(workspace.candidates), len(workspace.references)
    first, last = workspace.candidates[0], workspace.candidates[-1]
    return wording.RANK_ALL.format(
        n_candidates=n_candidates, first=first, last=last, n_references=n_references
    )


def alone_prompt(workspace: "Workspace") -> str:
    """The one line that opens a conversation about a single attempt."""
    return wording.JUDGE_ONE.format(name=workspace.candidates[0])


def opening(
    workspace: "Workspace", mode: str = "agentic", rubric: Rubric = PAPER, material: str | None = None
) -> tuple[dict[str, str], ...]:
    """The messages that open a conversation; `material` is what a judge without tools is given."""
    task = task_prompt(workspace) if mode == "agentic" else alone_prompt(workspace)
    return (
        {"role": "system", "content": system_prompt(mode, rubric)},
        {"role": "user", "content": task if material is None else material},
    )


@cache
def prompt_version(mode: str = "agentic", rubric: Rubric = PAPER) -> str:
    """Twelve hex digits that change with the prompts, the wording of a conversation, the tools' schemas or the rubric."""
    schemas = [*READING_SCHEMAS, RUN_CHECK_SCHEMA, VIEW_OUTPUT_SCHEMA, submit_schema(rubric), vote_schema()]
    content = [
        system_prompt(mode, rubric),
        system_prompt(VOTE, rubric),
        rubric.digest,
        schemas,
        wording.all_texts(),
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]
