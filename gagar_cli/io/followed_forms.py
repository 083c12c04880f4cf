"""What form a file of a growing dump has: told by its first whole line, or by all of it once its writer has left it."""

import os
from contextlib import ExitStack
from pathlib import Path

from gagar_cli.errors import InputError
from gagar_cli.io.followed_inputs import FollowedFile
from gagar_cli.io.formats import FORMATS, recognise
from gagar_cli.io.formats.base import Context
from gagar_cli.io.formats.files import NativeFile, Sample
from gagar_cli.io.markers import END_OF_DUMP, is_marker
from gagar_cli.io.native_files import recognised, run_directory_of
from gagar_cli.io.native_found import Found, Other
from gagar_cli.io.open_sources import open_parquet
from gagar_cli.io.scan import ReadOptions
from gagar_cli.io.sources import JsonlSource, Scanned, Source
from gagar_cli.io.streams import Opened, open_input, show_path
from gagar_cli.io.tails import GrowingFile, LineFeed


def first_record(file: FollowedFile, options: ReadOptions, *, is_last: bool) -> "Scanned | InputError | None":
    """The first record of a file of lines, or what is wrong with it; None where it is not there yet."""
    lines = GrowingFile(file.place, options, name=show_path(file.path), is_native=True)
    for scanned in lines.look(is_last=is_last):
        if isinstance(scanned.record, InputError):
            return scanned.record
        if not is_marker(scanned.record) or END_OF_DUMP in scanned.record:
            return scanned
    return None


def form_of_lines(
    file: FollowedFile, forced: str | None, options: ReadOptions, *, is_last: bool
) -> "Found | Other | None":
    """What a file of lines is; None where its first record is not there yet."""
    if forced == "canonical":
        return Other(file.path)
    first = first_record(file, options, is_last=is_last)
    if first is None:
        return None
    sample = Sample(Path(file.path).name, "lines", first.record if isinstance(first, Scanned) else None)
    taken = recognise(sample, are_attempts=bool(options.fields)) if isinstance(first, Scanned) else None
    if forced is not None and not file.is_inside:
        taken = FORMATS[forced], "--format"
    if taken is None:
        return Other(file.path)
    return Found(file.path, *taken, run_directory=run_directory_of(file.path, taken[0]), container="lines")


def form_of_whole(
    file: FollowedFile, forced: str | None, options: ReadOptions, resources: ExitStack, *, is_last: bool
) -> "Found | Source | None":
    """What any other file is; None where its writer is still at it, for all that can be told.

    Raises:
        InputError: it cannot be read, and nothing more comes.
    """
    state = file.state()
    is_settled = state is not None and state == file.seen and state != file.refused
    file.seen = state
    if state is None or not (is_settled or is_last):
        return None
    file.refused = state
    taken_for = None if file.is_inside and forced != "canonical" else forced
    one = (
        Other(file.path)
        if taken_for == "canonical"
        else recognised(file.path, taken_for, resources, has_fields=bool(options.fields))
    )
    if isinstance(one, Found):
        is_whole = one.container != "unknown" and not (one.container == "lines" and _is_torn(file))
        return one if is_last or is_whole else None
    if file.is_json and (file.is_inside or not is_last):
        return None
    try:
        return _canonical_source(file.path, one.opened or open_input(file.path), options)
    except InputError:
        if is_last:
            raise
        return None


def first_id(file: FollowedFile, label: str, options: ReadOptions) -> object:
    """The id of a file's first attempt under a label."""
    assert file.found is not None and file.found.format.read is not None  # noqa: S101, PT018 - it was read
    native: NativeFile
    if file.is_lines:
        native = LineFeed(file.path, show_path(file.path))
        first = first_record(file, options, is_last=True)
        native.fill(iter([first] if isinstance(first, Scanned) else []))
    else:
        native = NativeFile(file.path, file.found.container)
    try:
        is_grouped = options.group_by not in (None, "prompt") or "group_id" in options.fields
        rows = file.found.format.read(native, Context(run=label, is_grouped=is_grouped))
        records = (row.record for row in rows if isinstance(row.record, dict))
        return next(records, {}).get("trajectory_id")
    except InputError:
        return None
    finally:
        native.close()


def _is_torn(file: FollowedFile) -> bool:
    """Whether lines that are read together have an end that was not written yet."""
    if file.is_whole:
        return False
    try:
        with Path(file.place).open("rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) != b"\n"
    except OSError:  # it was emptied meanwhile
        return True


def _canonical_source(path: str, opened: Opened, options: ReadOptions) -> Source:
    if opened.kind == "parquet":
        return open_parquet(path, opened, options)
    return JsonlSource(path, opened, explode=options.explode, max_record_bytes=options.max_record_bytes)
