"""Opens the files of a dump: native ones as their formats say, all others as JSON lines or Parquet."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from gagar_cli.io.foreign import open_dump_file, refuse_foreign
from gagar_cli.io.joins import KEYS
from gagar_cli.io.native import Spool, open_native
from gagar_cli.io.native_companions import note_of_links
from gagar_cli.io.native_files import find_native
from gagar_cli.io.read_options import ReadOptions, forced_format
from gagar_cli.io.records import PROMPT_FIELDS
from gagar_cli.io.remote import is_remote
from gagar_cli.io.sources import JsonlSource, Source
from gagar_cli.io.streams import Opened, list_shards, show_path


def open_sources(
    paths: Sequence[str], options: ReadOptions, opened: ExitStack
) -> tuple[list[Source], list[str]]:
    """The sources of native files and of the others, and notes; what is opened is closed with `opened`.

    Raises:
        InputError: a file cannot be read.
        OutputError: no space to expand a compressed input.
    """
    forced = forced_format(options)
    found, others, notes = find_native(paths, forced, opened, has_fields=bool(options.fields))
    sources: list[Source] = []
    seen: dict[tuple[int, int], str] = {}
    found = [each for each in found if _is_new(each.path, seen, notes)]
    if found:
        spool = Spool()
        opened.callback(spool.close)
        sources += open_native(
            found,
            spool,
            keep_raw=options.keep_raw,
            group_by=options.group_by,
            fields=options.fields,
            pass_threshold=options.pass_threshold,
            columns=(*options.extras, *options.lists),
        )
    # What grouping and joining look at, for readers that choose columns.
    needed = (*(KEYS if options.joins else ()), *(PROMPT_FIELDS if options.group_by == "prompt" else ()))
    chosen = replace(options, extras=tuple(dict.fromkeys((*options.extras, *needed))))
    for named in others:
        for path in list_shards(named.path):
            if not _is_new(path, seen, notes):
                continue
            if named.opened is not None:
                refuse_foreign(path, named.opened)
            sources.append(_open_source(path, named.opened or open_dump_file(path), chosen))
            opened.callback(sources[-1].close)
    # Addresses are no paths, and are read by copies.
    notes += note_of_links([each for each in seen.values() if not is_remote(each)], [*paths])
    return sources, notes


def _is_new(path: str, seen: dict[tuple[int, int], str], notes: list[str]) -> bool:
    """Whether a file was not met before under another name, such as by a link to the latest one; that is told."""
    if path == "-":
        return True
    try:
        found = os.stat(path)  # noqa: PTH116 - an address is no path
    except (OSError, ValueError):
        return True  # an address, or what its reader tells of
    place = (found.st_dev, found.st_ino)
    if place in seen:
        notes.append(f"{show_path(path)}: the same file as {show_path(seen[place])}, read once")
        return False
    seen[place] = path
    return True


def _open_source(path: str, opened: Opened, options: ReadOptions) -> Source:
    if opened.kind == "parquet":
        return open_parquet(path, opened, options)
    return JsonlSource(
        path,
        opened,
        explode=options.explode,
        max_record_bytes=options.max_record_bytes,
        skim=(*options.extras, options.group_by or "") if options.is_index_only else None,
        # What a join or a prompt needs lies outside of the columns of a table.
        flat=None
        if options.joins or options.group_by in ("prompt", "directory")
        else (*options.extras, options.group_by or ""),
    )


def open_parquet(path: str, opened: Opened, options: ReadOptions) -> Source:
    """A Parquet file as a source."""
    # With the file its library would cost 40 MB of memory, which JSON lines have no use for.
    from gagar_cli.io.parquet import ParquetSource

    return ParquetSource(
        path,
        opened,
        explode=options.explode,
        group_by=options.group_by,
        max_record_bytes=options.max_record_bytes,
        extras=options.extras,
    )
