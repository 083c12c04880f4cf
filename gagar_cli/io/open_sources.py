"""Opens the files of a dump: native ones as their formats say, all others as JSON lines or Parquet."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from gagar_cli.io.joins import KEYS
from gagar_cli.io.native import Spool, open_native
from gagar_cli.io.native_files import find_native
from gagar_cli.io.read_options import ReadOptions
from gagar_cli.io.records import PROMPT_FIELDS
from gagar_cli.io.sources import JsonlSource, Source
from gagar_cli.io.streams import Opened, list_shards, open_input


def open_sources(
    paths: Sequence[str], options: ReadOptions, opened: ExitStack
) -> tuple[list[Source], list[str]]:
    """The sources of native files and of the others, and notes; what is opened is closed with `opened`.

    Raises:
        InputError: a file cannot be read.
        OutputError: no space to expand a compressed input.
    """
    is_own_form = options.format is None and bool(options.fields or options.explode)
    forced = "canonical" if is_own_form else options.format
    found, others, notes = find_native(paths, forced, opened)
    sources: list[Source] = []
    if found:
        spool = Spool()
        opened.callback(spool.close)
        sources += open_native(found, spool, keep_raw=options.keep_raw, group_by=options.group_by)
    # What grouping and joining look at, for readers that choose columns.
    needed = (*(KEYS if options.joins else ()), *(PROMPT_FIELDS if options.group_by == "prompt" else ()))
    chosen = replace(options, extras=tuple(dict.fromkeys((*options.extras, *needed))))
    for named in others:
        for path in list_shards(named.path):
            sources.append(_open_source(path, named.opened or open_input(path), chosen))
            opened.callback(sources[-1].close)
    return sources, notes


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
