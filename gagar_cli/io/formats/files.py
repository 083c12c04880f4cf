"""Native files as they lie on disk: JSON lines, one JSON document, a JSON array of records, or Parquet.

The container is found out by content, never by the name. A sample holds the first record, which is what formats are
told apart by; reading goes through the file record by record. A document is one value in memory, so its size is capped.
NaN is accepted (Python writes it) and becomes null; all other strictness of `io/jsonl.py` holds.
"""

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from gagar_cli.errors import InputError
from gagar_cli.io.foreign import HEAD_BYTES, foreign
from gagar_cli.io.jsonl import (
    MAX_RECORD_BYTES,
    Line,
    ends_too_early,
    parse_line,
    parse_value,
    read_lines,
)
from gagar_cli.io.markers import is_marker
from gagar_cli.io.streams import Opened, open_input, show_path

MAX_DOCUMENT_BYTES = 128 * 1024**2
_BATCH_ROWS = 16
_MAX_MARK_BYTES = 4096
_BOM = b"\xef\xbb\xbf"
_PICKLE_SUFFIXES = (".pt", ".pth", ".pkl", ".pickle")
_PICKLES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")

Container = Literal["lines", "document", "array", "parquet", "pickle", "unknown"]


@dataclass(frozen=True, slots=True)
class Sample:
    """What a file is told by: its container and first record."""

    name: str
    """The file's own name, without its folders."""
    container: Container
    first: Any = None
    """The first record: the whole value of a document, the first item of an array; None where there is none."""
    columns: tuple[str, ...] = ()
    """Of Parquet."""

    @property
    def keys(self) -> frozenset[str]:
        """The names in the first record, or the columns."""
        if self.columns:
            return frozenset(self.columns)
        return frozenset(self.first) if isinstance(self.first, dict) else frozenset()


class Numbered(NamedTuple):
    """One native record, or why it cannot be read, with its line or number."""

    line: int
    record: Any


class NativeFile:
    """One file, opened anew for each reading; what comes from a pipe or is compressed is kept expanded."""

    def __init__(self, path: str, container: Container | None = None) -> None:
        """`container` where a sample has told it before."""
        self.path = path
        self.name = show_path(path)
        opened = open_input(path)
        self.spooled: Opened | None = opened if opened.is_spool else None
        """What was expanded or came from a pipe, so that nobody has to do it again."""
        self._kind = opened.kind
        self._kept: BinaryIO | None = opened.stream if opened.is_spool else None
        if not opened.is_spool:
            opened.stream.close()
        self._container = container
        self.problem: InputError | None = None
        """Why the sample is of no known container, where it is no JSON at all."""
        # What has no path of its own is opened anew by its descriptor.
        self._place = path if self._kept is None else f"/proc/self/fd/{self._kept.fileno()}"

    @property
    def own_name(self) -> str:
        """The file's name without its folders, as text that can be stored: names on disk may be any bytes."""
        return storable(Path(self.path).name)

    def close(self) -> None:
        """Close what is kept."""
        if self._kept is not None:
            self._kept.close()

    def sample(self) -> Sample:
        """The container and the first record; what cannot be read has the container `unknown`."""
        name = Path(self.path).name
        if self._kind == "parquet":
            self._container = "parquet"
            return Sample(name, "parquet", columns=_parquet_columns(self._place, self.name))
        with self.reading() as stream:
            head = stream.read(_MAX_MARK_BYTES)
            stream.seek(0)
            # Every zip begins as what torch writes does: there the first entry is the pickle.
            is_other_zip = (
                head.startswith(_PICKLES[0])
                and b"/data.pkl" not in head
                and not name.endswith(_PICKLE_SUFFIXES)
            )
            if head.startswith(_PICKLES) and not is_other_zip:
                self._container = "pickle"
                return Sample(name, "pickle")
            line = next((line for line in read_lines(stream) if not _is_mark(line)), None)
            sample = self._sample_text(name, line, stream)
        self._container = sample.container
        return sample

    def values(self) -> Iterator[Numbered]:
        """Every record: the lines, the items of an array, the document, or the rows of Parquet."""
        container = self._container or self.sample().container
        if container == "parquet":
            yield from _parquet_rows(self._place, self.name)
        elif container == "lines":
            with self.reading() as stream:
                for line in read_lines(stream):
                    value = _parsed(line, self.name)
                    if not isinstance(value, dict) or not is_marker(value):
                        yield Numbered(line.number, value)
        elif container in ("document", "array"):
            value = self.document()
            if isinstance(value, list) and container == "array":
                yield from (Numbered(number, each) for number, each in enumerate(value, 1))
            else:
                yield Numbered(1, value)
        else:
            self.sample()
            raise self.problem or InputError(f"{self.name}: neither JSON nor Parquet")

    def document(self) -> Any:
        """The whole file as one JSON value.

        Raises:
            InputError: too large, or not strict JSON.
        """
        with self.reading() as stream:
            text = stream.read(MAX_DOCUMENT_BYTES + 1)
        if len(text) > MAX_DOCUMENT_BYTES:
            raise InputError(
                f"{self.name}: one JSON document of more than {MAX_DOCUMENT_BYTES // 1024**2} MiB"
            )
        try:
            return parse_value(text.removeprefix(_BOM), self.name, may_be_nan=_anywhere)
        except InputError as error:
            if other := foreign(self.name, text[:HEAD_BYTES]):
                raise other from error
            cause = error.__cause__
            if not isinstance(cause, json.JSONDecodeError) or cause.lineno > 1:
                raise
            # Of one line the parser's place is the column alone.
            message = error.message.removeprefix(f"{self.name}:")
            raise InputError(f"{self.name}:1:{message}", error.hint) from cause

    @contextmanager
    def reading(self) -> Iterator[BinaryIO]:
        """The file's bytes from the start."""
        try:
            if self._kept is not None:
                self._kept.seek(0)
                yield self._kept
            else:
                with closing(open_input(self.path).stream) as stream:
                    yield stream
        except OSError as error:
            raise InputError(f"{self.name}: {(error.strerror or str(error)).lower()}") from error

    def _sample_text(self, name: str, line: Line | None, stream: BinaryIO) -> Sample:
        if line is None:
            return Sample(name, "unknown")
        if not line.text.lstrip().startswith((b"{", b"[")):
            plain = InputError(f"{self.name}:{line.number}: neither JSON nor Parquet")
            self.problem = foreign(self.name, line.text[:HEAD_BYTES]) or plain
            return Sample(name, "unknown")
        try:
            value = parse_value(line.text, f"{self.name}:{line.number}", may_be_nan=_anywhere)
            is_alone = next(read_lines(stream), None) is None
        except InputError as error:
            # A first line that is only cut begins a document; one that is broken begins a broken file of lines.
            if ends_too_early(error.__cause__):
                return self._sample_document(name, stream)
            self.problem = error
            return Sample(name, "unknown")
        if is_alone and not isinstance(value, dict):
            return _sample_value(name, value)
        return Sample(name, "lines", value)

    def _sample_document(self, name: str, stream: BinaryIO) -> Sample:
        if os.fstat(stream.fileno()).st_size > MAX_DOCUMENT_BYTES:
            return Sample(name, "unknown")
        try:
            return _sample_value(name, self.document())
        except InputError as error:
            self.problem = error
            return Sample(name, "unknown")


def storable(path: str) -> str:
    r"""A path as text: bytes of it that are no UTF-8 as `\xNN`."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")


def _sample_value(name: str, value: Any) -> Sample:
    if not isinstance(value, list):
        return Sample(name, "document", value)
    if value and isinstance(value[0], dict) and "role" in value[0]:
        return Sample(name, "document", value)  # one log of messages, not an array of records
    return Sample(name, "array", value[0] if value else None)


def _parsed(line: Line, name: str) -> dict[str, object] | InputError:
    try:
        return parse_line(line, name, may_be_nan=_anywhere, max_record_bytes=MAX_RECORD_BYTES)
    except InputError as error:
        return error


def _is_mark(line: Line) -> bool:
    """Whether a line is a mark of a writer: it tells nothing about the format."""
    if len(line.text) > _MAX_MARK_BYTES or b"end_of_" not in line.text:
        return False
    value = _parsed(line, "")
    return isinstance(value, dict) and is_marker(value)


def _anywhere(_path: str) -> bool:
    return True


@contextmanager
def _mapped(name: str) -> Iterator[None]:
    import pyarrow as pa

    from gagar_cli.core.text import escape_untrusted, shorten

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError, OverflowError, ValueError) as error:
        detail = shorten(escape_untrusted(str(error), keep_newlines=False), 200)
        raise InputError(f"{name}: cannot be read as Parquet: {detail}") from error


def _parquet_columns(path: str, name: str) -> tuple[str, ...]:
    import polars as pl

    with suppress(pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return tuple(pl.scan_parquet(Path(path).absolute(), glob=False).collect_schema())
    import pyarrow.parquet as pq  # it words what is wrong, and costs a fifth of a second

    with _mapped(name), Path(path).open("rb") as stream, pq.ParquetFile(stream) as table:
        return tuple(table.schema_arrow.names)


def _parquet_rows(path: str, name: str) -> Iterator[Numbered]:
    """The rows in batches of 16: a dictionary can make a row far larger than its share of the file."""
    import pyarrow.parquet as pq

    line = 1
    with (
        _mapped(name),
        Path(path).open("rb") as stream,
        pq.ParquetFile(stream, buffer_size=1024**2, pre_buffer=False) as table,
    ):
        for batch in table.iter_batches(_BATCH_ROWS):
            if batch.nbytes > batch.num_rows * MAX_RECORD_BYTES:
                raise InputError(f"{name}: {batch.num_rows} rows hold more than 64 MiB each")
            for record in batch.to_pylist(maps_as_pydicts="strict"):
                yield Numbered(line, record)
                line += 1
