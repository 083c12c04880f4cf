"""What looking at a named file gives: a file of a known format, or another one."""

from dataclasses import dataclass
from typing import NamedTuple

from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Format
from gagar_cli.io.formats.files import Container, NativeFile
from gagar_cli.io.streams import Opened, show_path


@dataclass(frozen=True, slots=True)
class Found:
    """A file of a known format."""

    path: str
    format: Format
    why: str
    run_directory: str
    container: Container
    file: NativeFile | None = None
    """Kept open where it was expanded or came from a pipe."""


class Other(NamedTuple):
    """An input that is not native: a file, a folder, or `-`."""

    path: str
    opened: Opened | None = None
    """What was expanded, or came from a pipe, on looking at it."""
    problem: InputError | None = None
    """Why it cannot be read as JSON or Parquet at all."""


def refuse(found: Found) -> None:
    """Say why a file that is recognised holds no attempts to read.

    Raises:
        InputError: always.
    """
    name = show_path(found.path)
    if found.format.role == "verdicts":
        raise InputError(
            f"{name}: {found.why}: verdicts without attempts", "name the attempts, and this with `--join`"
        )
    raise InputError(f"{name}: {found.format.title}: not read: {found.format.needs_join}")
