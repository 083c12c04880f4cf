"""Native files as sources of a dump, read as canonical records.

Converted records go to one anonymous temporary file while they are scanned, and are read from it again by place: a
native file is parsed once, and memory holds one record.
"""

import os
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from gagar_cli.errors import InputError, OutputError
from gagar_cli.io.formats.base import Context, Row
from gagar_cli.io.formats.files import NativeFile, storable
from gagar_cli.io.formats.predictions import numbered, patch_of
from gagar_cli.io.jsonl import dump_line, parse_object
from gagar_cli.io.native_companions import leads_out
from gagar_cli.io.native_files import LOG_FOLDERS
from gagar_cli.io.native_found import Found
from gagar_cli.io.native_lines import NativeLines
from gagar_cli.io.records import Fields, look_up, prompt_key
from gagar_cli.io.remote import masked
from gagar_cli.io.sources import Place, Scanned
from gagar_cli.io.streams import MAX_SPOOL_BYTES, show_path


class Spool:
    """Converted records, one JSON line each, in an anonymous temporary file; shared by the sources of a dump."""

    def __init__(self) -> None:
        self._stream = cast("BinaryIO", tempfile.TemporaryFile(buffering=1024**2))  # noqa: SIM115 - closed with the dump
        self._n_bytes = 0
        self._is_flushed = True
        self._lock = threading.Lock()

    def append(self, line: bytes) -> tuple[int, int]:
        """Keep a line; its offset and its length without the newline."""
        if self._n_bytes + len(line) > MAX_SPOOL_BYTES:
            raise InputError(
                f"the converted records take more than {MAX_SPOOL_BYTES / 1e9:.0f} GB",
                "convert the dump in parts with `gagar convert`, and read those",
            )
        offset = self._n_bytes
        try:
            self._stream.write(line)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OutputError(
                f"converted records cannot be kept in the temporary directory: {reason}",
                "point TMPDIR at a directory with space",
            ) from error
        self._n_bytes += len(line)
        self._is_flushed = False
        return offset, len(line) - 1

    def read(self, offset: int, length: int) -> bytes:
        """The line at a place."""
        with self._lock:
            if not self._is_flushed:
                self._stream.flush()
                self._is_flushed = True
        return os.pread(self._stream.fileno(), length, offset)

    def close(self) -> None:
        """Give the space back."""
        self._stream.close()


class NativeSource:
    """One native file, read as canonical records."""

    def __init__(
        self,
        found: Found,
        spool: Spool,
        context: Context,
        *,
        group_by: str | None,
        patches: Mapping[str, str | None],
    ) -> None:
        self.name = show_path(found.path)
        self.notes: list[str] = context.notes
        self.offered: list[str] = context.offered
        self.run_directory = found.run_directory
        self.form = (found.format.name, found.why)
        self.is_connected = found.format.is_connected
        self.group_id_source: str | None = None
        self._found = found
        self._spool = spool
        # A field of the dump's own is found under `raw`, which goes again where nobody asked for it.
        self._context = replace(
            context,
            keep_raw=context.keep_raw or group_by not in (None, "prompt", "directory"),
            is_grouped=group_by not in (None, "prompt") or "group_id" in context.fields,
        )
        self._is_raw_kept = context.keep_raw
        self._group_by = group_by
        self._patches = patches
        self._lines = NativeLines(found)

    def scan(self, fields: Fields) -> Iterator[Scanned]:
        """Every record of the file, converted."""
        file = self._found.file or NativeFile(self._found.path, self._found.container)
        self._lines.note()
        read = self._found.format.read
        if read is None:
            raise InputError(
                f"{self.name}: {self._found.format.title} cannot be read: {self._found.format.needs_join}"
            )
        try:
            for row in read(file, self._context):
                yield self._kept(self._one_reward(row, fields))
        except InputError as error:
            yield Scanned(Place(1), error)
        finally:
            file.close()

    def read(self, places: Sequence[Place], fields: Fields) -> Iterator[dict[str, object]]:  # noqa: ARG002 - a record has all fields
        """The records at the given places."""
        return self.read_whole(places)

    def read_whole(
        self,
        places: Sequence[Place],
        columns: Sequence[str] | None = None,  # noqa: ARG002 - a line is read whole
    ) -> Iterator[dict[str, object]]:
        """The records at the given places."""
        for text in self.read_texts(places):
            yield parse_object(text, self.name)

    def read_texts(self, places: Sequence[Place]) -> Iterator[bytes]:
        """The records at the given places as JSON."""
        for place in places:
            yield self._spool.read(place.offset or 0, place.length or 0)

    @property
    def has_lines(self) -> bool:
        """Whether every record is one line of the file, which `read_lines` gives."""
        return self._lines.are_records

    def read_lines(self, places: Sequence[Place]) -> Iterator[bytes]:
        """The lines of the file at ascending places as they stand there; without `has_lines` as `read_texts`."""
        return self._lines.read(places) if self.has_lines else self.read_texts(places)

    def close(self) -> None:
        """Close the spool; closing it again does nothing."""
        self._spool.close()

    def _one_reward(self, row: Row, fields: Fields) -> Row:
        """The row, or what is to be said where its reward has several parts and nobody has chosen one."""
        record = row.record if isinstance(row.record, dict) else {}
        parts = record.get("reward")
        if not isinstance(parts, Mapping) or not parts or parts != record.get("rewards"):
            return row
        if "reward" in fields.mapping:
            return row
        names = ", ".join(show_path(str(name)) for name in list(parts)[:20])
        choice = (
            f"--format {self._found.format.name} --field reward=rewards.{show_path(str(next(iter(parts))))}"
        )
        error = InputError(
            f"{self.name}:{row.line}: reward has several parts ({names}), expected one number",
            f"choose one, as with `{choice}`",
        )
        return Row(row.line, error)

    def _kept(self, row: Row) -> Scanned:
        if isinstance(row.record, InputError):
            return Scanned(Place(row.line), row.record)
        record = row.record
        if record.get("model_patch") is None and record.get("instance_id") in self._patches:
            record["model_patch"] = self._patches[record["instance_id"]]
        try:
            self._group(record)
        except InputError as error:
            return Scanned(
                Place(row.line), InputError(f"{self.name}:{row.line}: {error.message}", error.hint)
            )
        if self._context.keep_raw and not self._is_raw_kept:
            record.pop("raw", None)
            for message in record.get("messages") or ():
                message.pop("extra", None)
        self.group_id_source = str(record.get("group_id_source"))
        record["source_path"] = storable(masked(self._found.path))
        record["source_row"] = row.line
        offset, length = self._spool.append(dump_line(record))
        return Scanned(Place(row.line, offset, length), record)

    def _group(self, record: dict[str, Any]) -> None:
        """Group by what the user says, where anything is said."""
        if self._group_by is None:
            return
        if self._group_by == "prompt":
            record["group_id"] = prompt_key(_without_extras(record))
            record["group_id_source"] = "equal_prompt"
        elif self._group_by == "directory":
            record["group_id"] = storable(Path(self._found.path).resolve().parent.name)
            record["group_id_source"] = "directory"
        else:
            value = look_up(record, self._group_by)
            value = look_up(record, f"raw.{self._group_by}") if not isinstance(value, str | int) else value
            if not isinstance(value, str | int) or isinstance(value, bool):
                raise InputError(f"{self._group_by} is missing, expected what groups the records")
            record["group_id"] = str(value)
            record["group_id_source"] = f"field:{self._group_by}"


def _without_extras(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """A record whose messages lack what is kept on request only: it differs between attempts (times, ids), the prompt does not."""
    messages = record.get("messages")
    if not isinstance(messages, list):
        return record
    kept = [{name: value for name, value in each.items() if name != "extra"} for each in messages]
    return {**record, "messages": kept}


def open_native(
    found: Sequence[Found],
    spool: Spool,
    *,
    keep_raw: bool,
    group_by: str | None,
    fields: Mapping[str, str],
    pass_threshold: float,
    columns: Sequence[str] = (),
) -> list[NativeSource]:
    """The sources of native files, each with the label of its run and the patches beside it."""
    patches: dict[str, dict[str, str | None]] = {}
    sources = []
    for each, label in zip(found, label_runs(found), strict=True):
        has_patches_beside = each.format.name in ("mini-swe-agent", "swe-agent")
        if has_patches_beside and each.run_directory not in patches:
            patches[each.run_directory] = patches_beside(each.run_directory)
        context = Context(
            run=label, keep_raw=keep_raw, fields=fields, pass_threshold=pass_threshold, columns=columns
        )
        sources.append(
            NativeSource(each, spool, context, group_by=group_by, patches=patches.get(each.run_directory, {}))
        )
    return sources


def label_runs(found: Sequence[Found]) -> list[str]:
    """The label of each file's run, which stands in the ids of its attempts; empty for a pipe.

    A file that is named alone has the label that it has in its folder: the ids are the same, whichever is named.
    """
    labels = _labels([each.run_directory for each in found])
    n_files = Counter((each.format.name, each.run_directory) for each in found)
    made = []
    for each in found:
        label = "" if each.path == "-" else storable(labels[each.run_directory])
        if not each.format.is_one_attempt and n_files[each.format.name, each.run_directory] > 1:
            label = f"{label}/{storable(Path(each.path).name).partition('.')[0]}"
        made.append(label)
    return made


def patches_beside(run_directory: str) -> dict[str, str | None]:
    """The predictions in a run's own folder, by instance; what a link brings from elsewhere are none of its own."""
    patches: dict[str, str | None] = {}
    names = ("preds.json", "all_preds.jsonl")
    for path in [
        Path(run_directory, *folder, name)
        for folder in ((), *((each,) for each in LOG_FOLDERS))
        for name in names
    ]:
        if not path.is_file() or leads_out(path, run_directory):
            continue
        file = NativeFile(str(path))
        try:
            for _, value in numbered(file):
                if isinstance(value, Mapping) and isinstance(value.get("instance_id"), str):
                    patches.setdefault(value["instance_id"], patch_of(value))
        except InputError:
            continue
        finally:
            file.close()
    return patches


def _labels(directories: Sequence[str]) -> dict[str, str]:
    """The shortest ending of each directory that tells it from the others."""
    parts_of = {directory: Path(directory).parts for directory in directories}
    labels: dict[str, str] = {}
    n = 1
    while parts_of:
        # Ever fewer are left to tell apart: trees have thousands of runs.
        alike = Counter(parts[-n:] for parts in parts_of.values())
        told = {each: parts for each, parts in parts_of.items() if alike[parts[-n:]] == 1 or n >= len(parts)}
        labels |= {each: "/".join(parts[-n:]).lstrip("/") for each, parts in told.items()}
        parts_of = {each: parts for each, parts in parts_of.items() if each not in told}
        n += 1
    return labels
