"""How blind a judge was: after its ranking it is asked which policy it thinks wrote each attempt.

The question comes last, in the conversation in which the attempts were seen, so that it cannot change the ranking. A
judge that guesses no better than chance was blind; one that guesses well may have ranked names instead of code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gagar_cli.core.ranking import RankedCandidate
from gagar_cli.errors import EndpointError, LimitError, VerdictError
from gagar_cli.grader.acceptance import Acceptance, SentBackError
from gagar_cli.grader.loop import Usage
from gagar_cli.grader.talks import Talks
from gagar_cli.grader.tool_schemas import SUBMIT
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.wording import GUESS
from gagar_cli.grader.workspace import Workspace


def guess_schema(candidates: Sequence[str], policies: Sequence[str]) -> dict[str, Any]:
    """The tool that takes the guesses."""
    entry = {
        "type": "object",
        "properties": {
            "id": {"type": "string", "enum": list(candidates)},
            "policy": {"type": "string", "enum": list(policies)},
        },
        "required": ["id", "policy"],
        "additionalProperties": False,
    }
    parameters = {
        "type": "object",
        "properties": {"candidates": {"type": "array", "items": entry}},
        "required": ["candidates"],
        "additionalProperties": False,
    }
    description = "Say which policy you think wrote each candidate."
    return {
        "type": "function",
        "function": {"name": SUBMIT, "description": description, "parameters": parameters},
    }


@dataclass(slots=True)
class GuessAcceptance(Acceptance):
    """Takes guesses in place of a ranking: one of the policies for every candidate."""

    policies: tuple[str, ...] = ()
    guesses: dict[str, str] = field(default_factory=dict)
    """Blind id to policy."""

    def accept(self, arguments: Mapping[str, Any]) -> tuple[RankedCandidate, ...]:
        """Take the guesses; the ranking that comes back is empty.

        Raises:
            SentBackError: something is wrong with them, and the judge may try again.
            VerdictError: something is wrong with them, and it may not.
        """
        self.n_submissions += 1
        try:
            self.guesses = self._read(arguments)
        except ValueError as error:
            if self.n_submissions > self.max_reasks:
                raise VerdictError(f"invalid guess: {error}") from error
            raise SentBackError(str(error)) from error
        return ()

    def _read(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        entries = arguments.get("candidates")
        if not isinstance(entries, list):
            raise ValueError("candidates is no list")
        guesses = {}
        for entry in entries:
            name, policy = (entry.get("id"), entry.get("policy")) if isinstance(entry, dict) else (None, None)
            if name not in self.workspace.candidates:
                raise ValueError(f"id is {name!r}, expected one of {', '.join(self.workspace.candidates)}")
            if policy not in self.policies:
                raise ValueError(f"policy is {policy!r}, expected one of {', '.join(self.policies)}")
            guesses[name] = policy
        missing = [name for name in self.workspace.candidates if name not in guesses]
        if missing:
            raise ValueError(f"no guess for {', '.join(missing)}")
        return guesses


class Guess(NamedTuple):
    """What a judge thinks, and what asking cost."""

    policies: dict[str, str] | None
    """Trajectory id to policy; None where no usable answer came."""
    usage: Usage


async def ask_guess(
    workspace: Workspace, seen: Sequence[Mapping[str, Any]], talks: Talks, policies: Sequence[str]
) -> Guess:
    """Which policy the judge thinks wrote each trajectory.

    `seen` is the conversation in which it ranked. A failure here costs the guess, never the ranking.

    Raises:
        EndpointError: only one that every other group would meet too.
    """
    named = tuple(sorted(policies))
    acceptance = GuessAcceptance(workspace, talks.limits.max_reasks, policies=named)
    toolbox = Toolbox(workspace, None, {SUBMIT}, submit=guess_schema(workspace.candidates, named))
    question = {"role": "user", "content": f"{GUESS} The policies: {', '.join(named)}."}
    try:
        await talks.hold([*(dict(message) for message in seen), question], toolbox, acceptance)
    except EndpointError as error:
        if error.is_fatal:
            raise
        return Guess(None, talks.usage)
    except (LimitError, VerdictError):
        return Guess(None, talks.usage)
    guessed = {workspace.trajectory_ids[name]: policy for name, policy in acceptance.guesses.items()}
    return Guess(guessed, talks.usage)
