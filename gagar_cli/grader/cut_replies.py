"""Replies that end before their call does, because the bound of a reply was reached: they get more room, once.

Models that think before they call meet the bound often, and telling them so in the conversation costs a turn that ends
the same way. The larger bound is for that one call; a second cut is told to the model. The log of the conversation has
what was cut off in front of the reply that took its place: it was said, and paid for.
"""

from typing import Any

from gagar_cli.grader.endpoint import Protocol
from gagar_cli.grader.protocols import read_reply
from gagar_cli.grader.protocols_text import BadActionError
from gagar_cli.grader.replies import Reply

CUT_OFF = "cut_off"
"""In a message of the log: it was never part of what is sent."""
RAISED_BY = 2
MIN_RAISED_TOKENS = 4_096
"""Where the run sets no bound: what the server cuts at by itself is not always told, and may be very little."""


def larger_bound(reply: Reply, protocol: Protocol, bound: int | None, max_context_tokens: int) -> int | None:
    """How many tokens a reply that was cut may have instead; None where it was not, or no larger one fits.

    `bound` is that of the run, None where it sets none; `max_context_tokens` holds a call and its reply.
    """
    is_at_bound = reply.finish_reason == "length" or (bound is not None and reply.n_output_tokens >= bound)
    if not is_at_bound or _makes_whole_calls(reply, protocol):
        return None
    wanted = max(RAISED_BY * (bound or reply.n_output_tokens), 0 if bound else MIN_RAISED_TOKENS)
    fitting = min(wanted, max_context_tokens - reply.n_input_tokens)
    return fitting if fitting > (bound or reply.n_output_tokens) else None


def as_cut_off(reply: Reply) -> dict[str, Any]:
    """The reply for the log alone: its calls as far as they came, whether or not they are JSON."""
    message = {**reply.message, CUT_OFF: True}
    for shown, call in zip(message.get("tool_calls", ()), reply.calls, strict=True):
        if call.arguments is None:
            shown["function"]["arguments"] = call.raw_arguments
    return message


def _makes_whole_calls(reply: Reply, protocol: Protocol) -> bool:
    try:
        return all(call.arguments is not None for call in read_reply(reply, protocol).calls)
    except BadActionError:
        return False
