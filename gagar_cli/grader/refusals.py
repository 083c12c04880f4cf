"""What an error status of an endpoint means: ask again, ask otherwise, or give up on this group or on the run.

Servers word the same refusal in many ways; the phrases here are what vLLM, SGLang, llama.cpp, Ollama, LiteLLM,
OpenRouter and the hosted ones say. A phrase is only looked for in errors, never in an answer.
"""

import email.utils
import math
import re
import time
from datetime import UTC
from typing import TYPE_CHECKING, NoReturn

from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.spending import spending_of
from gagar_cli.errors import ContextOverflowError, EndpointError
from gagar_cli.grader.replies import RetryableError, shown

if TYPE_CHECKING:
    import httpx2

MAX_RETRY_AFTER_SECONDS = 60.0
MAX_REFUSED_GROUPS = 5
"""In a row, all with the same refusal, and none settled before them: then it is the run that is refused."""

_FATAL_HINTS = {
    401: "set the variable named by `--api-key-env` to a valid key",
    403: "the key is valid but may not use this model",
    404: "check `--base-url` (it usually ends in /v1) and `--model`",
}
_OVERFLOW = re.compile(
    r"context.{0,20}(?:length|window|size|limit)|maximum.{0,20}(?:context|prompt|input).{0,20}(?:length|tokens)|prompt is too long"
    r"|input.{0,30}too (?:long|large)|too many (?:input )?tokens|exceeds? the (?:available |max\w* )?(?:context|input|number of tokens)"
    r"|input length.{0,60}exceed|longer than the model|reduce the length|(?:input|prompt) tokens.{0,40}(?:exceed|limit|greater)"
    r"|exceed_context_size|context_length_exceeded|string_above_max_length"
    r"|(?:exceed|than).{0,40}max_(?:model|seq)_len|max_seq_len \d"
    r"|(?:model|sequence|token) (?:length|limit).{0,30}(?:exceed|greater)|exceed.{0,20}(?:model|sequence|token) (?:length|limit)"
    r"|tokens? in the (?:prompt|request).{0,40}(?:exceed|more than)|maximum model length|must have less than \d+ tokens"
    r"|`inputs` tokens \+|range of input length",
    re.IGNORECASE,
)
_OF_CONTENT = re.compile(
    r"content[ _-]?(?:filter|management policy|policy)|moderation|\bflagged\b|safety (?:filter|polic|system)"
    r"|ResponsibleAIPolicyViolation|DataInspectionFailed|inappropriate content",
    re.IGNORECASE,
)
"""What services say that look through what they are sent: it is the group's content that they refuse."""
_NO_TOOLS = re.compile(
    r"(?:not|n't|no endpoints found that) (?:support|allow|accept|permit|implement)\w*.{0,60}(?:tool|function)"
    r"|tool[\w -]*(?:is|are)?.{0,30}(?:not|un)[ -]?(?:support|available|implemented|permitted|recogni[sz]ed)"
    r"|enable-auto-tool-choice|tool-call-parser|tools param requires|requires? --jinja|function calling is not"
    r"|\btools\b.{0,80}(?:extra inputs|extra_forbidden|unknown|unexpected|unrecogni[sz]ed)"
    r"|(?:extra inputs|extra_forbidden|unknown|unexpected|unrecogni[sz]ed|unsupported).{0,60}\btools\b",
    re.IGNORECASE | re.DOTALL,
)
_NO_SCHEMA = re.compile(
    r"response_format|json[_ ]schema|structured.?output|guided|grammar|xgrammar|outlines", re.IGNORECASE
)
_WRONG_CAP = re.compile(r"max_tokens|max_completion_tokens", re.IGNORECASE)
_WORD_OF_REFUSAL = re.compile(
    r"not supported|unsupported|unknown|unrecogni[sz]ed|unexpected|extra|forbidden|not permitted|not allowed|instead|invalid",
    re.IGNORECASE,
)
_REFUSED_REASON = re.compile(r"endpoint: the endpoint refused \((status 4\d\d)(.*)", re.DOTALL)
_OF_ONE_CALL = re.compile(r"[\w-]*\d[\w-]*")
"""Ids, times and counts: what differs between two tellings of the same refusal."""
_REASONING_FIELD = re.compile(r"reasoning(?:_content)?", re.IGNORECASE)


class ProtocolRefusedError(Exception):
    """The endpoint cannot be asked in this way; the text says what it answered."""


class ParameterRefusedError(Exception):
    """A parameter is spelt otherwise here, or not taken; `name` is `max_tokens` or `reasoning`."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class RefusedGroups:
    """Tells a refusal that every group meets, such as a parameter that is not taken, from one group's bad luck.

    One that the endpoint says by 401, 403 or 404 is fatal at its first call; a 400 may be the fault of what one group
    holds, so it takes some groups to know.
    """

    def __init__(self) -> None:
        self._n_in_a_row = 0
        self._refusal = self._shape = ""
        self._has_settled = False

    def count(self, ranking: GroupRanking) -> None:
        """Take in how a group ended."""
        refused = _REFUSED_REASON.match(ranking.reason or "") if ranking.status == "ungraded" else None
        if refused is None:
            # A group that took no answer, as one without leads that is only checked, says nothing of the endpoint.
            if spending_of(ranking.grader).n_calls:
                self._n_in_a_row = 0
                self._has_settled = self._has_settled or ranking.status != "ungraded"
            return
        status, text = refused[1], refused[2]
        shape = status + _OF_ONE_CALL.sub("", text)
        self._n_in_a_row = self._n_in_a_row + 1 if shape == self._shape else 1
        self._refusal, self._shape = (status + text).removesuffix(")"), shape

    def tell_graded(self) -> None:
        """Note that an earlier part of the run had groups graded: those that are left may be the ones with bad luck."""
        self._has_settled = True

    def raise_if_all(self) -> None:
        """Called before the next group is begun.

        Raises:
            EndpointError: fatal, the endpoint refuses the run; its groups are ungraded and owed.
        """
        if not self._has_settled and self._n_in_a_row >= MAX_REFUSED_GROUPS:
            raise EndpointError(
                f"the endpoint refused {self._n_in_a_row} groups in a row in the same way and none was graded "
                f"({self._refusal})",
                "check `--model`, `--extra-body` and the other parameters of the model, or ask `gagar doctor`; "
                "the same command asks these groups again",
                is_fatal=True,
            )


def raise_for_status(status: int, text: str, response: "httpx2.Response", *, protocol: str) -> NoReturn:
    """Raise what an error status means.

    Raises:
        RetryableError: it may pass when asked again.
        ProtocolRefusedError: tools, or a schema, are not taken here.
        ParameterRefusedError: a parameter is not taken here.
        ContextOverflowError: the request is longer than the model's window.
        EndpointError: anything else; fatal for 401, 403, 404 and redirects.
    """
    told = f"status {status}: {shown(text)}"
    if status not in (401, 403, 429) and status >= 400:
        _raise_for_words(status, text, told, protocol)
    if status in (400, 403, 422, 451) and _OF_CONTENT.search(text):
        # Of this group alone, also where the status is one by which others are told that the key will not do.
        raise EndpointError(f"the endpoint refused the content ({told})")
    if status in (408, 409, 429) or status >= 500 or status < 200:
        raise RetryableError(told, retry_after_seconds(response))
    if status < 400:
        raise EndpointError(
            f"the endpoint redirects ({told})", "give the final address as `--base-url`", is_fatal=True
        )
    raise EndpointError(
        f"the endpoint refused ({told})", _FATAL_HINTS.get(status), is_fatal=status in _FATAL_HINTS
    )


def _raise_for_words(status: int, text: str, told: str, protocol: str) -> None:
    is_refusal = status in (400, 413, 422)
    if is_refusal and _WRONG_CAP.search(text) and _WORD_OF_REFUSAL.search(text) and not _is_overflow(text):
        raise ParameterRefusedError("max_tokens", told)
    # 413 is about nothing but the length, whatever its words: a proxy in between may say it too.
    if status == 413 or ((is_refusal or status == 500) and _is_overflow(text)):
        raise ContextOverflowError(f"the conversation is longer than the model's window ({told})")
    if protocol == "tools" and status in (400, 404, 422, 500, 501) and _NO_TOOLS.search(text):
        raise ProtocolRefusedError(told)
    if protocol == "json-schema" and status in (400, 404, 422, 500, 501) and _NO_SCHEMA.search(text):
        raise ProtocolRefusedError(told)
    if is_refusal and _REASONING_FIELD.search(text) and _WORD_OF_REFUSAL.search(text):
        raise ParameterRefusedError("reasoning", told)


def _is_overflow(text: str) -> bool:
    return _OVERFLOW.search(text) is not None


def retry_after_seconds(response: "httpx2.Response") -> float | None:
    """The wait that the endpoint asks for, in seconds, at most `MAX_RETRY_AFTER_SECONDS`; None where it asks none.

    `retry-after-ms` goes before `retry-after`, which is a number of seconds or a date.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _seconds(response.headers.get(name, ""), unit)
        if seconds is not None and math.isfinite(seconds):
            return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)
    return None


def _seconds(text: str, unit: float) -> float | None:
    try:
        return float(text) * unit
    except ValueError:
        pass
    try:
        moment = email.utils.parsedate_to_datetime(text)
        # A date without a zone is in UTC, as all dates of HTTP are.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
