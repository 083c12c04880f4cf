"""The grader's prompts: Markdown files, named in every ranking by the hash of their bytes.

The system prompt is the same for every group, so that an endpoint's prefix cache can hold it. No text of a dump is
ever put into a prompt: the grader meets it in tool results only.
"""

import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from gagar_cli.core.rubric import DESCRIPTIONS, WEIGHTS

if TYPE_CHECKING:
    from gagar_cli.grader.workspace import Workspace

_RUBRIC_MARK = "{{rubric}}"


@cache
def system_prompt() -> str:
    """What the grader is told before it sees a group."""
    text = files("gagar_cli.grader.prompts").joinpath("system.md").read_text(encoding="utf-8")
    dimensions = [
        f"- `{name}` ({float(weight):.0%}): {DESCRIPTIONS[name]}" for name, weight in WEIGHTS.items()
    ]
    return text.replace(_RUBRIC_MARK, "\n".join(dimensions))


def task_prompt(workspace: "Workspace") -> str:
    """The one line that opens a group's conversation: how many attempts there are, and nothing of theirs."""
    n_candidates, n_references = len(workspace.candidates), len(workspace.references)
    return (
        f"Rank the {n_candidates} passing attempts ({workspace.candidates[0]} to {workspace.candidates[-1]}); "
        f"{n_references} failing attempts are there as context. Start with `overview`."
    )


def opening(workspace: "Workspace") -> tuple[dict[str, str], ...]:
    """The messages that open a group's conversation."""
    return (
        {"role": "system", "content": system_prompt()},
        {"role": "user", "content": task_prompt(workspace)},
    )


@cache
def prompt_version() -> str:
    """Twelve hex digits that change with the prompt or the rubric."""
    return hashlib.sha256(system_prompt().encode()).hexdigest()[:12]
