"""What dumps of plain rows share: how a row is recognised, read, and its text split into turns.

Trainers write what a reward function or a rollout adds: such a column is taken where it has a canonical name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from gagar_cli.core.messages import chat_messages
from gagar_cli.core.messages_templates import split_template
from gagar_cli.core.text import counted
from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Context, Format, Lift, Record, Row
from gagar_cli.io.formats.files import NativeFile, Numbered, Sample
from gagar_cli.io.formats.parts import attempt_id, check_keys, finished, text_key
from gagar_cli.io.formats.values import RewardError, as_written, flag_or_none
from gagar_cli.io.records import placed

_REPEATS = "repeats"
_PLACES = ("", "metadata.", "env_extras.", "env_extras.instance.")
_TEXTS = (
    "model_patch", "test_output", "problem_statement", "repo", "base_commit", "docker_image", "workdir", "test_command",
    "instance_id",
)  # fmt: skip
_FLAGS = ("resolved", "infra_failure", "mask_sample")
_COUNTS = ("n_turns", "n_output_tokens")
NAMED = "model_patch, test_output, resolved, messages, …"
NAMED_PLACES = "columns of canonical names, also in metadata or env_extras"
_UNREAD = "not read"
_EXPECTED = {
    **dict.fromkeys(_FLAGS, ("neither true nor false", "neither true nor false")),
    **dict.fromkeys(_COUNTS, ("no whole number from 0", "no whole numbers from 0")),
    **dict.fromkeys(_TEXTS, ("no text", "no texts")),
    "messages": ("no list of messages", "no lists of messages"),
}


Conclude = Callable[[Context], Iterable[str]]


class RowPlace(NamedTuple):
    """What a row's maker may know beside the row."""

    file: NativeFile
    number: int
    context: Context
    templates: set[str]
    replies: list[int]
    """How many replies the completion of a log holds, where it could be split; of at most one log."""

    @property
    def stem(self) -> str:
        """The file's name without its ending."""
        return self.file.own_name.partition(".")[0]

    @property
    def attempt_id(self) -> str:
        """Where the row lies: the file and the line."""
        is_named = self.context.run.endswith(f"/{self.stem}")
        return attempt_id(self.context, None if is_named else self.stem, self.number)

    def first_like(self, prompt: Any, output: Any) -> int | None:
        """The first row of the file with the same texts, where that is not this one; the repeats are counted."""
        if not isinstance(output, str) or not output:
            return None
        seen = self.context.seen
        first: int = seen.setdefault(text_key([prompt, output]), self.number)
        if first == self.number:
            return None
        seen[_REPEATS] = seen.get(_REPEATS, 0) + 1
        return first

    def log(self, prompt: Any, completion: Any) -> list[dict[str, Any]]:
        """The messages of a prompt and its completion, each text or a list of messages; the template is remembered."""
        if isinstance(prompt, str) and isinstance(completion, str):
            # Its last border is in the prompt: only the whole text can be split exactly.
            template = split_template(prompt).template
            if template not in ("none", "bare"):
                self.templates.add(template)
                before = split_template(prompt).messages
                is_open = before[-1]["role"] == "assistant"  # where the model was to go on
                messages = split_template(prompt + completion).messages
                self.replies.append(_n_replies(messages) - _n_replies(before) + is_open)
                return messages
        asked = self._turns(prompt, "user")
        if asked and asked[-1] == {"role": "assistant", "content": ""}:  # where the model was to go on
            asked = asked[:-1]
        answered = self._turns(completion, "assistant")
        if isinstance(completion, list) or len(answered) > 1:  # one text may hold any number of them
            self.replies.append(_n_replies(answered))
        return [*asked, *answered]

    def _turns(self, value: Any, role: str) -> list[dict[str, Any]]:
        if isinstance(value, list):
            self.templates.add("messages")
            return chat_messages(value)
        text = value if isinstance(value, str) else ""
        split = split_template(text, role=role, is_continuation=role == "assistant")
        self.templates.add(split.template)
        return split.messages


def _n_replies(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum(message["role"] == "assistant" for message in messages)


def has(*names: str, container: str | None = None) -> Callable[[Sample], str | None]:
    """A test for rows that hold these names, and are not canonical."""

    def detect(sample: Sample) -> str | None:
        is_container = sample.container == container if container else sample.container in ("lines", "array")
        if is_container and set(names) <= sample.keys and not {"group_id", "source_format"} & sample.keys:
            return f"{'columns' if sample.columns else 'rows with'} {', '.join(names)}"
        return None

    return detect


def read_rows(
    make: Callable[[Lift, RowPlace], Record],
    name: str,
    file: NativeFile,
    context: Context,
    values: Iterable[Numbered] | None = None,
    *,
    keys: Sequence[str],
    conclude: Conclude | None = None,
) -> Iterator[Row]:
    """A record for each row of the file, or of `values` where its rows are no attempts; every row has the `keys`.

    `conclude` says what is to be told of a file that was read.
    """
    templates: set[str] = set()
    for number, value in file.values() if values is None else values:
        if isinstance(value, InputError):
            yield Row(number, value)
            continue
        if not isinstance(value, Mapping):
            yield Row(number, InputError(f"{file.name}:{number}: no object, expected a row of {name}"))
            continue
        lift = Lift(value)
        replies: list[int] = []
        try:
            check_keys(value, keys, name)
            place = RowPlace(file, number, context, templates, replies)
            record = _made(make, lift, place)
        except InputError as error:
            yield Row(number, placed(error, f"{file.name}:{number}"))
            continue
        record = _named(lift, record, context) | record
        if replies and "n_turns" not in record:
            record["n_turns"] = replies[0]
        record["source_format"] = name
        yield Row(number, finished(record, lift, context))
    if repeats := context.seen.get(_REPEATS):
        context.notes.append(
            f"{file.name}: {counted(repeats, 'row repeats', 'rows repeat')} an earlier one word for word, as copies of a sibling do"
        )
    context.notes.extend(
        f"{file.name}: {told}" for told in (*_unread(context), *(conclude(context) if conclude else ()))
    )
    if "bare" in templates:
        context.notes.append(f"{file.name}: special tokens were dropped: turns are split at bare role names")
    elif templates == {"none"}:
        context.notes.append(f"{file.name}: the text has no chat template that is known: one message a text")


def _made(make: Callable[[Lift, RowPlace], Record], lift: Lift, place: RowPlace) -> Record:
    """The record of a row; where the user names another reward, what stands in the place of its own does not matter."""
    try:
        return make(lift, place)
    except RewardError as error:
        if "reward" not in place.context.fields:
            raise
        lift.rest = dict(lift.source)
        lift.take(error.name)
    return make(lift, place)


def _named(lift: Lift, record: Record, context: Context) -> Record:
    """What a row has under a canonical name, and of the right type, beside what its format says of it."""
    found: Record = {}
    for place in _PLACES:
        if place and not isinstance(lift.peek(place[:-1]), Mapping):
            continue
        for name in (*_TEXTS, *_FLAGS, *_COUNTS, "messages"):
            value = lift.peek(place + name)
            if name in _FLAGS or name in _COUNTS:  # verl's writers make numbers or text of numpy's values
                value = as_written(value)
            if value is not None and value != value:  # NaN is how tables have null
                value = None
            if name == "resolved" and value is None and name in _holder(lift, place):
                record.setdefault(name, None)  # not evaluated, whatever the score says
            if value is None or name in found or record.get(name) is not None:
                continue
            read = _read_named(name, value)
            if read is not None:
                lift.take(place + name)
                found[name] = read
            else:
                context.count((_UNREAD, name, place), value)
    return found


def _read_named(name: str, value: Any) -> Any:
    """The value as its field takes it, None where it does not."""
    if name in _FLAGS:
        return flag_or_none(value)
    if name in _COUNTS:
        is_whole = type(value) is int or (isinstance(value, float) and value.is_integer())
        return int(value) if is_whole and value >= 0 else None
    if name == "messages":
        return chat_messages(value) if isinstance(value, list) else None
    return value if isinstance(value, str) else None


def _unread(context: Context) -> Iterator[str]:
    """The columns with a canonical name that some rows have with another type, and the first such value."""
    for place in _PLACES:
        for name, (one, many) in _EXPECTED.items():
            if n_rows := context.seen.get((_UNREAD, name, place)):
                first = context.firsts[_UNREAD, name, place]
                is_what = counted(n_rows, f"row is {one}", f"rows are {many}")
                yield f"{place}{name} of {is_what} ({first}), and not used"


def is_named(lift: Lift, name: str) -> bool:
    """Whether a row has something under a canonical name, be it null."""
    return any(name in _holder(lift, place) for place in _PLACES)


def _holder(lift: Lift, place: str) -> Mapping[str, Any]:
    held = lift.peek(place[:-1]) if place else lift.rest
    return held if isinstance(held, Mapping) else {}


def row_format(
    name: str,
    title: str,
    container: str,
    detect: Callable[[Sample], str | None],
    make: Callable[[Lift, RowPlace], Record],
    mapping: Mapping[str, str],
    *,
    keys: Sequence[str],
    needs: str = "patches, logs and test outputs of the agent",
    conclude: Conclude | None = None,
) -> Format:
    """A format of rows, made one by one; `keys` are what every row has, also where it is not looked at to tell the format."""
    return Format(
        name=name,
        title=title,
        container=container,
        detect=detect,
        read=partial(read_rows, make, name, keys=keys, conclude=conclude),
        mapping={**mapping, NAMED: NAMED_PLACES},
        needs_join=needs,
        is_row=True,
    )
