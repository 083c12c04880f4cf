"""Records that are no attempts, though they are what gagar reads or writes elsewhere: told by their form, once a dump."""

from collections.abc import Mapping

from gagar_cli.core.text import counted, escape_untrusted, shorten
from gagar_cli.errors import InputError

_VERDICTS = ("reward", "resolved", "passed")
_NEITHER = ("neither reward nor resolved", "say where it is with `--field reward=PATH`")


class MistakenError(InputError):
    """A record of a dump is something else, and so are the others."""


def without_verdict(record: Mapping[str, object]) -> InputError:
    """Why a record without reward and resolved is no attempt."""
    return mistaken(record) or InputError(*_NEITHER)


def mistaken(record: Mapping[str, object]) -> MistakenError | None:
    """What a record is that has no verdict: a ranking, or a group that holds its attempts; None where it may be anything."""
    if any(name in record for name in _VERDICTS):
        return None
    if _is_ranking(record):
        return MistakenError(
            "this is a ranking of `gagar grade`, expected an attempt of a rollout dump",
            "name the dump first and its rankings after it",
        )
    for name, value in record.items():
        is_attempts = isinstance(value, list) and bool(value) and all(map(_is_attempt, value))
        if isinstance(value, list) and is_attempts:
            shown = escape_untrusted(shorten(name, 80), keep_newlines=False)
            return MistakenError(
                f"neither reward nor resolved: {shown} is a list of {counted(len(value), 'attempt')}, the record a group of them",
                f"`--explode {shown}` makes a row of each attempt",
            )
    return None


def is_neither(error: InputError) -> bool:
    """Whether an error says that a record has no verdict, and nothing else."""
    return error.message == _NEITHER[0]


def is_attempt(record: Mapping[str, object]) -> bool:
    """Whether a line of a rankings file is an attempt of a dump, or says a verdict of one."""
    is_line = "candidates" in record or "status" in record
    return not is_line and any(
        name in record for name in (*_VERDICTS, "trajectory_id", "messages", "model_patch")
    )


def not_a_ranking(record: Mapping[str, object]) -> InputError:
    """Why an attempt in the place of a ranking cannot be read."""
    verdicts = [name for name in _VERDICTS if name in record]
    what = f", an attempt with {' and '.join(verdicts)}" if verdicts else ""
    return InputError(
        f"this is no ranking{what}: candidates and status are missing, expected a line of `gagar grade`",
        "a dump is named before its rankings; verdicts of attempts are joined to it with `--join FILE`",
    )


def _is_ranking(record: Mapping[str, object]) -> bool:
    is_line = isinstance(record.get("candidates"), list) and ("status" in record or "grader" in record)
    return is_line or record.keys() >= {"trajectory_id", "tier", "rank"}


def _is_attempt(value: object) -> bool:
    return isinstance(value, Mapping) and any(name in value for name in _VERDICTS)
