"""What dumps of plain rows share: how a row is recognised, read, and its text split into turns."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gagar_cli.core.messages_templates import split_template
from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Context, Format, Lift, Record, Row
from gagar_cli.io.formats.files import NativeFile, Sample
from gagar_cli.io.formats.parts import attempt_id, finished, prompt_key

_REPEATS = "repeats"


class RowPlace(NamedTuple):
    """What a row's maker may know beside the row."""

    file: NativeFile
    number: int
    context: Context
    templates: set[str]

    @property
    def stem(self) -> str:
        """The file's name without its ending."""
        return Path(self.file.path).name.partition(".")[0]

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
        first: int = seen.setdefault(prompt_key([prompt, output]), self.number)
        if first == self.number:
            return None
        seen[_REPEATS] = seen.get(_REPEATS, 0) + 1
        return first

    def log(self, prompt: Any, completion: Any) -> list[dict[str, Any]]:
        """The messages of a prompt and its completion; the template is remembered."""
        before = split_template(prompt if isinstance(prompt, str) else "", role="user")
        after = split_template(
            completion if isinstance(completion, str) else "", role="assistant", is_continuation=True
        )
        self.templates.update((before.template, after.template))
        asked = before.messages
        if asked and asked[-1] == {"role": "assistant", "content": ""}:  # where the model was to go on
            asked = asked[:-1]
        return [*asked, *after.messages]


def has(*names: str, container: str | None = None) -> Callable[[Sample], str | None]:
    """A test for rows that hold these names, and are not canonical."""

    def detect(sample: Sample) -> str | None:
        is_container = sample.container == container if container else sample.container in ("lines", "array")
        if is_container and set(names) <= sample.keys and not {"group_id", "source_format"} & sample.keys:
            return f"{'columns' if sample.columns else 'rows with'} {', '.join(names)}"
        return None

    return detect


def _read(
    make: Callable[[Lift, RowPlace], Record], name: str, file: NativeFile, context: Context
) -> Iterator[Row]:
    templates: set[str] = set()
    for number, value in file.values():
        if isinstance(value, InputError):
            yield Row(number, value)
            continue
        if not isinstance(value, Mapping):
            yield Row(number, InputError(f"{file.name}:{number}: no object, expected a row of {name}"))
            continue
        lift = Lift(value)
        record = make(lift, RowPlace(file, number, context, templates))
        record["source_format"] = name
        yield Row(number, finished(record, lift, context))
    if repeats := context.seen.get(_REPEATS):
        context.notes.append(
            f"{file.name}: {repeats:,} rows repeat an earlier one word for word, as copies of a sibling do"
        )
    if "bare" in templates:
        context.notes.append(f"{file.name}: special tokens were dropped: turns are split at bare role names")
    elif templates == {"none"}:
        context.notes.append(f"{file.name}: the text has no chat template that is known: one message a text")


def row_format(
    name: str,
    title: str,
    container: str,
    detect: Callable[[Sample], str | None],
    make: Callable[[Lift, RowPlace], Record],
    mapping: Mapping[str, str],
    *,
    needs: str = "patches, logs and test outputs of the agent",
) -> Format:
    """A format of rows, made one by one."""
    return Format(
        name=name,
        title=title,
        container=container,
        detect=detect,
        read=partial(_read, make, name),
        mapping=mapping,
        needs_join=needs,
    )
