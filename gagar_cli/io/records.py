"""The canonical record: which field is found where, and its scalars checked.

A dump names its fields as the canonical record does, or `--field canonical=dotted.path` says where they are. A path
walks objects, lists by number, and text that holds JSON. What is missing stays missing: null is never false or 0.
Errors carry no place; whoever knows the line adds it (`placed`).
"""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import NamedTuple

from gagar_cli.core.messages import before_reply
from gagar_cli.core.schema import MAX_REWARD
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.jsonl import show_value
from gagar_cli.io.lookups import MISSING as MISSING
from gagar_cli.io.lookups import from_json_text as from_json_text
from gagar_cli.io.lookups import look_up as look_up
from gagar_cli.io.mistaken import MistakenError, without_verdict

SCALARS = (
    "group_id", "instance_id", "trajectory_id", "step", "segment", "reward", "resolved", "infra_failure",
    "mask_sample", "n_turns", "n_output_tokens", "advantage",
)  # fmt: skip
TASK_FIELDS = (
    "instance_id", "problem_statement", "repo", "base_commit", "docker_image", "workdir", "test_command",
)  # fmt: skip
FLAG_FIELDS = frozenset(("resolved", "infra_failure", "mask_sample", "is_truncated"))
_NUMBERS = (int, float)
HEAVY_FIELDS = ("messages", "model_patch", "test_output", "exit_status", "is_truncated")
CANONICAL_FIELDS = tuple(dict.fromkeys((*SCALARS, *TASK_FIELDS, *HEAVY_FIELDS)))
PROMPT_FIELDS = ("problem_statement", "messages")
METHOD_FIELDS = (
    "process_score", "format_ok", "error_class", "turn_states", "turn_next_states", "turn_rewards",
)  # fmt: skip
"""Read only where a method asks for them."""
ALIASES = {"resolved": "passed", "infra_failure": "invalid"}
_INT64 = 2**63
MAX_KEY_CHARS = 256


class Scalars(NamedTuple):
    """The scalar fields of one record, checked; None where null or missing."""

    group: str | None
    """The value of the group key in use; None where it is the record itself."""
    trajectory_id: str | None
    step: int | None
    segment: int | None
    reward: float | None
    """NaN where the dump says so."""
    resolved: bool | None
    infra_failure: bool
    mask_sample: bool
    n_turns: int | None
    n_output_tokens: int | None
    advantage: float | None


class Fields:
    """Where each canonical field is found in a dump's records.

    Raises:
        UsageError: a mapped name is not a canonical field.
    """

    def __init__(self, mapping: Mapping[str, str]) -> None:
        for name in mapping:
            if name not in CANONICAL_FIELDS and name not in METHOD_FIELDS:
                expected = f"one of {', '.join((*CANONICAL_FIELDS, *METHOD_FIELDS))}"
                raise UsageError(f"--field maps {show_value(name)}, expected {expected}")
        self.mapping = dict(mapping)
        self.unseen = {*CANONICAL_FIELDS, *mapping}
        """Canonical fields that no record had so far, not even as null."""
        self._keys: set[str] = set()

    def find(self, record: Mapping[str, object], name: str) -> object:
        """The value of a canonical field, `MISSING` where the record lacks it.

        A flag may be 1 or 0, as reward functions and many writers of tables have it.
        """
        if self.mapping and name in self.mapping:
            value = look_up(record, self.mapping[name])
        else:
            value = record.get(name, MISSING)
            if value is MISSING and name in ALIASES:
                value = record.get(ALIASES[name], MISSING)
        is_bit = name in FLAG_FIELDS and type(value) in _NUMBERS and value in (0, 1)
        return bool(value) if is_bit else value

    def note_seen(self, record: Mapping[str, object]) -> None:
        """Strike the fields of this record off the unseen ones."""
        # A mapped path may lead nowhere in one record and somewhere in the next one with the same keys.
        if record.keys() <= self._keys and self.unseen.isdisjoint(self.mapping):
            return
        self._keys |= record.keys()
        self.unseen -= {name for name in self.unseen if self.find(record, name) is not MISSING}

    def columns(self, *names: str) -> list[str]:
        """The top-level names under which the given fields may lie, for readers that choose columns."""
        wanted: list[str] = []
        for name in names:
            path = self.mapping.get(name, name)
            wanted += [path, path.partition(".")[0]]
            if name in ALIASES and name not in self.mapping:
                wanted.append(ALIASES[name])
        return list(dict.fromkeys(wanted))


def placed(error: InputError, where: str) -> InputError:
    """The same error with the place it happened at in front."""
    kind = MistakenError if isinstance(error, MistakenError) else InputError
    return kind(f"{where}: {error.message}", error.hint)


def attempts_of(record: Mapping[str, object], explode: str) -> list[object]:
    """The list of attempts in a record, given as such or as JSON text.

    Raises:
        InputError: there is none.
    """
    value = record.get(explode, MISSING)
    if isinstance(value, str):
        value = from_json_text(value)
    if not isinstance(value, list):
        found = "missing" if value is MISSING else show_value(value)
        raise InputError(f"{explode} is {found}, expected a list of attempts", "named by `--explode`")
    return value


def exploded(record: Mapping[str, object], explode: str | None, item: int) -> dict[str, object]:
    """One attempt with its own fields laid over those of the record, without the list.

    Raises:
        InputError: the attempt is no object.
    """
    attempt = attempts_of(record, explode or "")[item]
    if not isinstance(attempt, dict):
        raise InputError(f"{explode}[{item}] is {show_value(attempt)}, expected an object")
    return {key: value for key, value in record.items() if key != explode} | attempt


def read_scalars(record: Mapping[str, object], fields: Fields, group_field: str | None) -> Scalars:
    """The scalar fields of a record, types checked.

    `group_field` is a canonical field, a path of the dump's own, or None where every record is its own group.

    Raises:
        InputError: a field has a wrong type, is out of range or empty, or there is neither reward nor resolved.
    """
    reward = fields.find(record, "reward")
    resolved = fields.find(record, "resolved")
    infra_failure = _flag(record, fields, "infra_failure")
    mask_sample = _flag(record, fields, "mask_sample")
    if reward is MISSING and resolved is MISSING and not infra_failure and not mask_sample:
        raise without_verdict(record)
    return Scalars(
        group=None if group_field is None else read_group_key(record, fields, group_field),
        trajectory_id=_identifier(record, fields, "trajectory_id"),
        step=_integer(record, fields, "step"),
        segment=_integer(record, fields, "segment"),
        reward=_reward(reward),
        resolved=_boolean(resolved, "resolved"),
        infra_failure=infra_failure,
        mask_sample=mask_sample,
        n_turns=_integer(record, fields, "n_turns", is_count=True),
        n_output_tokens=_integer(record, fields, "n_output_tokens", is_count=True),
        advantage=_advantage(fields.find(record, "advantage")),
    )


def read_group_key(record: Mapping[str, object], fields: Fields, group_field: str) -> str:
    """The text that groups a record; a list, an object or a long text counts by a digest of its JSON.

    Raises:
        InputError: the field is missing, null, empty or of a type that groups nothing.
    """
    is_canonical = group_field in ("group_id", "instance_id")
    value = fields.find(record, group_field) if is_canonical else look_up(record, group_field)
    if value is MISSING and group_field == "prompt":
        return prompt_key(record)
    if value is MISSING or value is None:
        raise InputError(
            f"{group_field} is {'missing' if value is MISSING else 'null'}, expected what groups the records"
        )
    if isinstance(value, list | dict) or (
        not is_canonical and isinstance(value, str) and len(value) > MAX_KEY_CHARS
    ):
        return _digest(value)
    return checked_identifier(value, group_field)


def prompt_key(record: Mapping[str, object]) -> str:
    """Sixteen hex digits of what an attempt was asked: the statement, else the messages before the first reply.

    Raises:
        InputError: there is neither.
    """
    asked: object = record.get("problem_statement")
    if not isinstance(asked, str):
        messages = record.get("messages")
        messages = from_json_text(messages) if isinstance(messages, str) else messages
        if not isinstance(messages, list):
            raise InputError("neither problem_statement nor messages, expected a prompt to group by")
        asked = before_reply(messages)
        if not asked:
            raise InputError("no message before the first reply, expected a prompt to group by")
    return _digest(asked)


def checked_identifier(value: object, name: str) -> str:
    """An id as text: integers are accepted, what cannot be stored or shown as text is not.

    Raises:
        InputError: not a string or integer, empty, or holding NUL or a lone surrogate.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise InputError(f"{name} is {show_value(value)}, expected a string that is not empty")
    if "\0" in value or (
        not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value)
    ):
        raise InputError(f"{name} is {show_value(value)}, expected text without NUL and lone surrogates")
    return value


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _identifier(record: Mapping[str, object], fields: Fields, name: str) -> str | None:
    value = fields.find(record, name)
    return None if value is None or value is MISSING else checked_identifier(value, name)


def _boolean(value: object, name: str) -> bool | None:
    if value is MISSING or value is None:
        return None
    if isinstance(value, bool):
        return value
    hint = f"map the field that says it with `--field {name}=PATH`"
    raise InputError(f"{name} is {show_value(value)}, expected true, false or null", hint)


def _flag(record: Mapping[str, object], fields: Fields, name: str) -> bool:
    return bool(_boolean(fields.find(record, name), name))


def _integer(
    record: Mapping[str, object], fields: Fields, name: str, *, is_count: bool = False
) -> int | None:
    value = fields.find(record, name)
    if value is MISSING or value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{name} is {show_value(value)}, expected an integer")
    limit = 2**31 if name == "segment" else _INT64
    if not (0 if is_count else -limit) <= value < limit:
        raise InputError(f"{name} is {show_value(value)}, number out of range")
    return value


def _number(value: object, name: str, *, may_be_nan: bool = False) -> float | None:
    if value is MISSING or value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InputError(
            f"{name} is {show_value(value)}, expected a number", f"map it with `--field {name}=PATH`"
        )
    try:
        number = float(value)
    except OverflowError as error:
        raise InputError(f"{name} is {show_value(value)}, number out of range") from error
    if math.isinf(number) or (math.isnan(number) and not may_be_nan):
        raise InputError(f"{name} is {number}, expected a finite number")
    return number


def _reward(value: object) -> float | None:
    if isinstance(value, bool):  # passed or not, as many dumps have it
        return float(value)
    number = _number(value, "reward", may_be_nan=True)
    if number is not None and abs(number) > MAX_REWARD:
        raise InputError(f"reward is {number:g}, expected a number from {-MAX_REWARD:g} to {MAX_REWARD:g}")
    return number


def _advantage(value: object) -> float | None:
    if isinstance(value, list):  # one number a token: a column that we neither use nor refuse
        return None
    return _number(value, "advantage")
