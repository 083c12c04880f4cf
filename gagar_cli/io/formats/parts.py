"""What several formats share: the end of a record, prompts as group keys, exit texts in one vocabulary."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gagar_cli.core.messages import json_text
from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Context, Lift, Record, Row
from gagar_cli.io.formats.files import NativeFile
from gagar_cli.io.formats.values import as_written, flag_or_none
from gagar_cli.io.jsonl import show_value
from gagar_cli.io.lookups import MISSING, look_up
from gagar_cli.io.near_names import paths_of
from gagar_cli.io.records import ALIASES, CANONICAL_FIELDS, FLAG_FIELDS, placed

_INFRASTRUCTURE = (
    "docker", "container", "runtime", "connection", "apierror", "api_error", "ratelimit", "rate limit", "retryerror",
    "serviceunavailable", "internalserver", "authentication", "sandbox", "timeouterror", "environment", "oserror",
)  # fmt: skip
_OWN_NAMES = frozenset((*CANONICAL_FIELDS, *ALIASES.values(), "directory", "raw"))
_NUMBERS = ("reward", "step", "segment", "n_turns", "n_output_tokens", "advantage")
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
    _put_mapped(record, lift, context)
    _put_columns(record, lift, context)
    if not context.keep_raw:
        for message in record.get("messages") or ():
            message.pop("extra", None)
        return record
    rest = {name: value for name, value in lift.rest.items() if value not in ({}, None) or name in keep}
    if rest:
        record["raw"] = json_text(rest)
    return record


def _put_mapped(record: Record, lift: Lift, context: Context) -> None:
    """Put what `--field` names in the native record where the field is looked for, under the whole path.

    What the canonical record has under that path goes first: parts of a reward have no place in the native one.
    """
    for name, path in context.fields.items():
        value = look_up(record, path)
        is_native = value is MISSING
        if is_native:
            value = look_up(lift.source, path.removeprefix("raw."))
        if value is MISSING:
            if not context.offered:
                context.offered.extend(paths_of(lift.source))
            continue
        read = _as_mapped(name, value)
        if is_native or read is not value:
            record[path] = read
        if name == "group_id":
            record["group_id_source"] = f"field:{path}"


def _put_columns(record: Record, lift: Lift, context: Context) -> None:
    """Put the further columns that the canonical record lacks where they are looked for, under the whole path."""
    for path in context.columns:
        # What a row has under a canonical name its format has taken, or has refused.
        if path in _OWN_NAMES or look_up(record, path) is not MISSING:
            continue
        value = look_up(lift.source, path)
        if value is MISSING:
            value = look_up(lift.source, path.removeprefix("raw."))
        if value is not MISSING:
            record[path] = value


def _as_mapped(name: str, value: Any) -> Any:
    """A value under a mapped field, where it is a flag or a number also as the text that writers make of numpy's values."""
    if name not in FLAG_FIELDS and name not in _NUMBERS:
        return value
    written = as_written(value)
    if name in FLAG_FIELDS:
        flag = flag_or_none(written)
        is_nothing = written is None or written != written
        return flag if flag is not None else None if is_nothing else value
    if not isinstance(value, str) or not isinstance(written, int | float | None):
        return value
    is_whole = isinstance(written, float) and written.is_integer()
    return int(written) if is_whole and name != "reward" and written is not None else written


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


def row_of(number: int, file: NativeFile, make: Callable[[], Record]) -> Row:
    """The row of a record that is made now, or why there is none, with its place."""
    try:
        return Row(number, make())
    except InputError as error:
        return Row(number, placed(error, f"{file.name}:{number}"))
