"""The files that a `--join` names: reports, predictions, logs and rows, one by one."""

from collections.abc import Iterator
from pathlib import Path

from gagar_cli.core.text import escape_untrusted
from gagar_cli.errors import InputError
from gagar_cli.io.foreign import HEAD_BYTES, foreign, with_help
from gagar_cli.io.formats.facts import Unit
from gagar_cli.io.formats.files import NativeFile
from gagar_cli.io.formats.verdicts import log_unit, read_units
from gagar_cli.io.streams import show_path

_MAX_FILES = 200_000


def units_of(path: str) -> Iterator[Unit]:
    """The units of a file, or of all files of a folder that hold any."""
    named = Path(path)
    if path != "-" and named.is_dir():
        files = sorted(each for each in named.rglob("*") if each.is_file() and not each.is_symlink())
        if len(files) > _MAX_FILES:
            raise InputError(f"{show_path(path)}: more than {_MAX_FILES:,} files to join")
        for each in files:
            if (unit := log_unit(str(each), show_path(each))) is not None:
                yield unit
            elif each.suffix in (".json", ".jsonl", ".pred"):
                yield from _read_units(str(each))
        return
    unit = log_unit(path, show_path(path)) if named.is_file() else None
    yield from ([unit] if unit is not None else _read_units(path))


def _read_units(path: str) -> list[Unit]:
    try:
        file = NativeFile(path)
    except InputError as error:
        raise with_help(path, error) from error
    try:
        sample = file.sample()
        if sample.container == "unknown":
            with file.reading() as stream:
                other = foreign(file.name, stream.read(HEAD_BYTES))
            if other is not None:
                raise other
        return read_units(file, sample)
    finally:
        file.close()


def short_name(unit: Unit) -> str:
    """The last parts of a unit's path, and its run."""
    named = show_path("/".join(Path(unit.path).parts[-2:]))
    return named if unit.run is None else f"{named}: {escape_untrusted(unit.run, keep_newlines=False)}"
