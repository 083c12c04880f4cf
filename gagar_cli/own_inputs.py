"""Outputs that would damage what a run reads: refused before anything is written."""

from collections.abc import Sequence
from pathlib import Path

from gagar_cli.errors import UsageError
from gagar_cli.io.remote import is_remote
from gagar_cli.io.streams import SHARD_SUFFIXES, show_path


def refuse_own_inputs(
    output: str, inputs: Sequence[str], *, flag: str = "-o", files: Sequence[str] = ()
) -> None:
    """Checks that an output, a file or a directory, neither replaces an input nor becomes a part of one.

    `files`: what is written in the directory.

    Raises:
        UsageError: it is an input, or the next run would take it for one of the shards of a folder.
    """
    if output == "-":
        return
    for name in inputs:
        if name == "-" or is_remote(name):
            continue
        if _is_same(output, name):
            raise UsageError(f"{flag} is {show_path(output)}, which is read", "name another place")
        if _is_shard_of(output, name):
            raise UsageError(
                f"{flag} is {show_path(output)}, in a folder that is read: the next run would take it for a shard",
                "put it beside the folder",
            )
        if any(_is_same(Path(output, file), name) for file in files):
            raise UsageError(
                f"{flag} is {show_path(output)}, and {show_path(name)} in it is read and would be written over",
                "name another place",
            )


def _is_shard_of(output: str, folder: str) -> bool:
    """Among native files rankings are passed over; among shards, and where nothing has arrived yet, they are not."""
    target = Path(output)
    if not target.name.endswith(SHARD_SUFFIXES) or not _is_same(target.parent, folder):
        return False
    # What an earlier run put there says nothing of its neighbours.
    names = [entry.name for entry in Path(folder).iterdir()]
    others = [name for name in names if not name.startswith((target.name, "."))]
    return not others or any(name.endswith(SHARD_SUFFIXES) for name in others)


def _is_same(first: str | Path, second: str | Path) -> bool:
    try:
        return Path(first).samefile(second)
    except OSError:
        return False  # one of them is not there
