"""Which of the named inputs are native files, and which of those are attempts of their own.

A folder is searched to its depth, each file told by its content. What belongs to another file (predictions beside
trajectories, a trajectory inside a trial, a trial that its run's file has too) is no attempt of its own.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from gagar_cli.core.text import counted
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.formats import FORMATS, recognise
from gagar_cli.io.formats.base import Format
from gagar_cli.io.formats.files import Container, NativeFile
from gagar_cli.io.remote import is_remote, masked
from gagar_cli.io.streams import SHARD_SUFFIXES, Opened, list_shards, show_path

SUFFIXES = (".json", ".jsonl", ".traj", ".pred", ".parquet", ".pt", ".pkl", ".jsonl.gz", ".jsonl.zst")
LOG_FOLDERS = ("trajs", "trajectories")
_MAX_FILES = 1_000_000
_MAX_SHOWN = 3
_MIN_BEGINNING = 3


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


def find_native(
    paths: Sequence[str], forced: str | None, stack: ExitStack
) -> tuple[list[Found], list[Other], list[str]]:
    """The native files among the named inputs, the inputs that are none, and notes.

    A folder is searched to its depth. What is kept open closes with the stack. Raises:
        InputError: a file is recognised and cannot be read, or a forced format finds nothing.
        UsageError: no such format.
    """
    if forced is not None and forced != "canonical" and forced not in FORMATS:
        raise UsageError(*_not_a_format(f"--format is {forced!r}", forced))
    if forced == "canonical":
        return [], [Other(path) for path in paths], []
    found: list[Found] = []
    others: list[Other] = []
    notes: list[str] = []
    for path in paths:
        if is_remote(path):
            inside_store = [recognised(shard, forced, stack) for shard in list_shards(path)]
            natives = [one for one in inside_store if isinstance(one, Found)]
            if len(inside_store) > 1 and (kept := without_companions(natives, notes, path)):
                found += kept
                notes += _unread(path, {one.path: None for one in inside_store if isinstance(one, Other)})
                continue
            for one in inside_store:
                _sort_in(one, found, others)
            continue
        if path != "-" and Path(path).is_dir():
            inside, unknown = _in_folder(path, forced, stack)
            kept = without_companions(inside, notes, path)
            if inside and not kept:
                refuse(inside[0])
            if kept:
                found += kept
                notes += _unread(path, unknown)
            else:
                others += [Other(shard, unknown.pop(shard, None)) for shard in list_shards(path)]
            for opened in unknown.values():
                if opened is not None:
                    opened.stream.close()
            continue
        _sort_in(recognised(path, forced, stack), found, others)
    return found, others, notes


def _not_a_format(what: str, name: str) -> tuple[str, str | None]:
    """An error and its hint: the nearest name, or all of them where none is near."""
    near = nearest_format(name)
    if near is None:
        return f"{what}, expected canonical, {', '.join(FORMATS)}", None
    return f"{what}, the nearest is {near}", "`gagar formats` lists all"


def nearest_format(name: str) -> str | None:
    """The format that a misspelt name stands for; None where it is like none."""
    names = ["canonical", *FORMATS]
    beginning = [each for each in names if len(name) >= _MIN_BEGINNING and each.startswith(name.lower())]
    return next(iter(beginning or get_close_matches(name.lower(), names, n=1)), None)


def _sort_in(one: "Found | Other", found: list[Found], others: list[Other]) -> None:
    if isinstance(one, Other):
        others.append(one)
    elif one.format.role in ("refused", "verdicts"):
        refuse(one)
    else:
        found.append(one)


def recognised(path: str, forced: str | None, stack: ExitStack) -> "Found | Other":
    """One file, told by its content or taken for the forced format."""
    try:
        file = NativeFile(path)
    except InputError:
        return Other(path)  # its reader says what is wrong with it
    kept = file if file.spooled is not None else None
    if kept is not None:
        stack.callback(kept.close)
    try:
        sample = file.sample()
    except InputError:
        return Other(path, file.spooled)
    taken = (FORMATS[forced], "--format") if forced else recognise(sample)
    if taken is None:
        return Other(path, file.spooled)
    folder = run_directory_of(path, taken[0])
    return Found(path, *taken, run_directory=folder, container=sample.container, file=kept)


def run_directory_of(path: str, format_: Format) -> str:
    """The folder that holds the run of a file: above that of an instance, and above one for trajectories only."""
    above, _, name = masked(path).rpartition("/")
    folder = _resolved(above or ("/" if path.startswith("/") else "."))
    if format_.name == "harbor" or folder.name == name.split(".traj")[0].removesuffix(".pred"):
        folder = folder.parent
    return str(folder.parent if folder.name in LOG_FOLDERS else folder)


@lru_cache(maxsize=1024)
def _resolved(folder: str) -> Path:
    # Looking up every part of a path takes longer than opening a small file.
    return Path(folder).resolve()


def _in_folder(
    path: str, forced: str | None, stack: ExitStack
) -> tuple[list[Found], dict[str, Opened | None]]:
    """The native files below a folder, and the shards that are none, with what was expanded of them."""
    files: list[str] = []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        chosen = [name for name in names if name.endswith(SUFFIXES) and not name.startswith(".")]
        files += [str(Path(folder) / name) for name in chosen]
        if len(files) > _MAX_FILES:
            raise InputError(f"{show_path(path)}: more than {_MAX_FILES:,} files")
    found: list[Found] = []
    unknown: dict[str, Opened | None] = {}
    for each in sorted(files, key=natural_order):
        one = recognised(each, None, stack) if Path(each).is_file() else None
        if isinstance(one, Found) and forced in (None, one.format.name):
            found.append(one)
        elif isinstance(one, Other) and each.endswith(SHARD_SUFFIXES):
            unknown[each] = one.opened
    if forced is not None and not found:
        raise InputError(f"{show_path(path)}: no file of the format {forced} in this folder")
    return found, unknown


def _unread(path: str, unknown: Mapping[str, object]) -> list[str]:
    """A note on shards that are of no native format beside files that are."""
    if not unknown:
        return []
    shown = ", ".join(show_path(each) for each in list(unknown)[:_MAX_SHOWN])
    what = counted(len(unknown), "of its files is", "of its files are")
    return [f"{show_path(path)}: {what} of no native format and not read: {shown}"]


def natural_order(path: str) -> list[tuple[int, int, str]]:
    """Steps count as numbers: 9.jsonl before 10.jsonl."""
    parts = []
    for part in Path(path).parts:
        digits = part.split(".")[0]
        parts.append((0, int(digits), part) if digits.isdecimal() and len(digits) < 18 else (1, 0, part))
    return parts


def without_companions(found: Sequence[Found], notes: list[str], path: str) -> list[Found]:
    """The files that are attempts of their own; what is left out is told."""
    logged_runs = {
        each.run_directory for each in found if each.format.name in ("mini-swe-agent", "swe-agent")
    }
    trials = {str(Path(each.path).resolve().parent) for each in found if each.format.name == "harbor"}
    whole_runs = [Path(each.path).resolve().parent for each in found if _is_whole_run(each)]
    whole_steps = {str(Path(each.path).parent) for each in found if each.format.name == "verifiers-1"}
    kept = []
    left: Counter[str] = Counter()
    for each in found:
        if each.format.role in ("refused", "verdicts"):
            left[f"{each.format.title}"] += 1
        elif each.format.role == "predictions" and each.run_directory in logged_runs:
            left["predictions beside trajectories, used for their patches"] += 1
        elif str(Path(each.path).parent) in whole_steps and _whole_step(each.path) in whole_steps:
            left["a step's effective episodes, which are among all of them"] += 1
        elif not _is_part_of(each, trials, whole_runs):
            kept.append(each)
    notes += [
        f"{show_path(path)}: no attempts in {count:,} of its files: {what}" for what, count in left.items()
    ]
    return kept


def _is_part_of(found: Found, trials: set[str], whole_runs: Sequence[Path]) -> bool:
    """Whether a file belongs to a trial of Harbor, or to a run of terminal-bench that has all its trials."""
    if found.format.name not in ("atif", "terminal-bench"):
        return False
    place = Path(found.path).resolve()
    if found.format.name == "atif":
        return str(place.parent.parent) in trials
    return any(run != place.parent and run in place.parents for run in whole_runs)


def _whole_step(path: str) -> str | None:
    """The folder with all episodes of a step of prime-rl, for a file that has those it trained on once more."""
    folder = Path(path).parent
    return str(folder.with_name("all")) if folder.name == "effective" else None


def _is_whole_run(found: Found) -> bool:
    return found.format.name == "terminal-bench" and found.why.endswith("a run of terminal-bench")


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
