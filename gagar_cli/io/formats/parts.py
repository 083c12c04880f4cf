"""What several formats share: the end of a record, prompts as group keys, exit texts in one vocabulary."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gagar_cli.core.messages import json_text
from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Context, Lift, Record
from gagar_cli.io.formats.files import NativeFile
from gagar_cli.io.jsonl import show_value
from gagar_cli.io.lookups import MISSING

_INFRASTRUCTURE = (
    "docker", "container", "runtime", "connection", "apierror", "api_error", "ratelimit", "rate limit", "retryerror",
    "serviceunavailable", "internalserver", "authentication", "sandbox", "timeouterror", "environment", "oserror",
)  # fmt: skip
_TRUNCATED = (
    (
        "truncated_context",
        ("context", "token limit", "token_limit", "max_prompt_length", "max_response_length", "length"),
    ),
    ("truncated_turns", ("iteration", "max_turns", "step_limit", "max_step", "limitsexceeded", "max step")),
    ("truncated_time", ("time", "deadline")),
    ("truncated_cost", ("cost", "budget")),
)


def finished(record: Record, lift: Lift, context: Context, *, keep: Sequence[str] = ()) -> Record:
    """The record, with what nobody took under `raw`; `keep` names what is large and only worth keeping on request."""
    if not context.keep_raw:
        for message in record.get("messages") or ():
            message.pop("extra", None)
        return record
    rest = {name: value for name, value in lift.rest.items() if value not in ({}, None) or name in keep}
    if rest:
        record["raw"] = json_text(rest)
    return record


def prompt_key(prompt: Any, name: str, context: Context) -> str:
    """What groups the attempts at a prompt (text, messages or a task), which the format has under `name`.

    Raises:
        InputError: there is none, and nothing else groups the record: those without one were asked different things.
    """
    if isinstance(prompt, str | list | Mapping) and prompt:
        return text_key(prompt)
    if context.is_grouped:
        return ""
    found = "missing" if prompt is MISSING else show_value(prompt)
    raise InputError(
        f"{name} is {found}, expected the prompt",
        "`--group-by FIELD` groups by something else, `--on-bad-record skip` leaves such records out",
    )


def text_key(value: Any) -> str:
    """Sixteen hex digits, the same for equal values."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def attempt_id(context: Context, *parts: object) -> str:
    """An id within the group: the run, where there is one, and what tells its attempts apart."""
    named = [str(part) for part in parts if part not in (None, "")]
    return "/".join([context.run, *named] if context.run else named)


def ended(status: str | None) -> Record:
    """What an exit text says: `termination`, `is_truncated`, and `infra_failure` where it names infrastructure.

    >>> ended("RateLimitError")
    {'termination': 'aborted', 'is_truncated': False, 'infra_failure': True, 'infra_failure_reason': 'RateLimitError'}
    """
    if status is None:
        return {}
    text = status.lower()
    if (
        any(word in text.replace(" ", "") or word in text for word in _INFRASTRUCTURE)
        and "context" not in text
    ):
        return {
            "termination": "aborted",
            "is_truncated": False,
            "infra_failure": True,
            "infra_failure_reason": status[:500],
        }
    for termination, words in _TRUNCATED:
        if any(word in text for word in words):
            return {"termination": termination, "is_truncated": True}
    return {"termination": "agent_error", "is_truncated": False}


def model_name(value: Any) -> str | None:
    """A model's name without blanks around it; None for what is no text."""
    return value.strip() if isinstance(value, str) and value.strip() else None


def objects(file: NativeFile, what: str) -> Iterator[tuple[int, Any, InputError | None]]:
    """The objects of a file with their number; what is none comes as an error."""
    for number, value in file.values():
        if isinstance(value, InputError):
            yield number, None, value
        elif isinstance(value, Mapping):
            yield number, value, None
        else:
            yield number, None, InputError(f"{file.name}:{number}: no object, expected {what}")


def check_keys(value: Mapping[str, Any], keys: Sequence[str], format_name: str) -> None:
    """See that a record is one of its format, which `--format` may have named for any file.

    Raises:
        InputError: it lacks keys that every record of the format has.
    """
    if missing := [key for key in keys if key not in value]:
        are = "is" if len(missing) == 1 else "are"
        raise InputError(
            f"{' and '.join(missing)} {are} missing, expected a record of {format_name} with {', '.join(keys)}",
            f"`gagar formats {format_name}` shows what is read; without `--format` the content tells the format",
        )


def instance_of(value: Any) -> str | None:
    """The id of a task, as its own record names it."""
    if not isinstance(value, Mapping):
        return None
    return next(
        (value[key] for key in ("instance_id", "id", "task_id") if text_or_none(value.get(key))), None
    )


def statement_of(value: Any) -> str | None:
    """What a task asks, as its own record has it; text is the statement itself."""
    if not isinstance(value, Mapping):
        return text_or_none(value)
    return next(
        (
            value[key]
            for key in ("problem_statement", "question", "prompt", "instruction")
            if text_or_none(value.get(key))
        ),
        None,
    )


def text_or_none(value: Any) -> str | None:
    """Text that is not empty."""
    return value if isinstance(value, str) and value else None


def number_or_none(value: Any) -> float | None:
    """A number that is no flag; an integer that no float can hold stays one, and is refused where rewards are checked."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return value


def total(numbers: Sequence[float]) -> float | None:
    """The sum; None of nothing. One that no float can hold is the largest part."""
    try:
        return sum(numbers) if numbers else None
    except OverflowError:
        return max(numbers, key=abs)
