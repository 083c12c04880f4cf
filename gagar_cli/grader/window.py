"""What a run has learnt of the model's window, for all its conversations: how much fits, and whether prompts are cut."""

import math
from dataclasses import replace

from gagar_cli.grader.replies import Reply

CHARS_PER_TOKEN = 3.5
"""Where the endpoint does not report what it counted."""
MIN_CONTEXT_CHARS = 8_000
"""A window that holds less than this is no use: the group is given up."""
MAX_CHARS_PER_TOKEN = 8.0
"""No tokenizer makes fewer tokens of plain English: a prompt that counts less was cut."""
MIN_WEIGHED_CHARS = 20_000
"""Shorter requests say nothing of a window."""


class Window:
    """Shared by all conversations of a run: what one of them has paid a refusal for, the others know."""

    def __init__(self) -> None:
        self.max_chars = math.inf
        """Of the messages of a request."""
        self.cut_note: str | None = None

    def narrow(self, n_chars: int) -> None:
        """Note that a request of so many characters was refused for its length."""
        # Half of what was refused, never of a budget: a group whose task alone is too long narrows no other's.
        self.max_chars = min(self.max_chars, max(n_chars / 2, MIN_CONTEXT_CHARS))

    def weigh(self, reply: Reply, n_chars: int) -> None:
        """Compare what was sent with what the endpoint counted; once is enough."""
        if self.cut_note is not None or reply.is_estimated or n_chars <= MIN_WEIGHED_CHARS:
            return
        # Some endpoints count what their cache held apart from the rest.
        n_tokens = reply.n_input_tokens + reply.n_cached_tokens
        if n_chars > MAX_CHARS_PER_TOKEN * n_tokens:
            self.cut_note = (
                f"the endpoint seems to cut prompts: it counted {n_chars} characters as {n_tokens} tokens; "
                "a smaller `--max-context-tokens`, or a larger window of the server, keeps them whole"
            )


def estimated(reply: Reply, n_sent: int) -> Reply:
    """The reply with its tokens reckoned from characters, so that budgets hold where nothing is reported."""
    n_written = len(reply.content) + sum(len(call.raw_arguments) for call in reply.calls)
    n_written += sum(map(len, reply.reasoning.values()))
    return replace(
        reply,
        n_input_tokens=int(n_sent / CHARS_PER_TOKEN),
        n_output_tokens=reply.n_output_tokens or int(n_written / CHARS_PER_TOKEN) + 1,
        is_estimated=True,
    )
