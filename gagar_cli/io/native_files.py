"""Which of the named inputs are native files, and which of those are attempts of their own.

A folder is searched to its depth, each file told by its content. What belongs to another file (predictions beside
trajectories, a trajectory inside a trial, a trial that its run's file has too) is no attempt of its own.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.formats import FORMATS, recognise
from gagar_cli.io.formats.base import Format
from gagar_cli.io.formats.files import NativeFile
from gagar_cli.io.streams import show_path

SUFFIXES = (".json", ".jsonl", ".traj", ".pred", ".parquet", ".pt", ".pkl", ".jsonl.gz", ".jsonl.zst")
LOG_FOLDERS = ("trajs", "trajectories")
_MAX_FILES = 1_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """A file of a known format."""

    path: str
    format: Format
    why: str
    run_directory: str


def find_native(paths: Sequence[str], forced: str | None) -> tuple[list[Found], list[str], list[str]]:
    """The native files among the named inputs, the inputs that are none, and notes.

    A folder is searched to its depth. Raises:
        InputError: a file is recognised and cannot be read, or a forced format finds nothing.
        UsageError: no such format.
    """
    if forced is not None and forced != "canonical" and forced not in FORMATS:
        raise UsageError(f"--format is {forced!r}, expected canonical, {', '.join(FORMATS)}")
    if forced == "canonical":
        return [], list(paths), []
    found: list[Found] = []
    others: list[str] = []
    notes: list[str] = []
    for path in paths:
        if path != "-" and Path(path).is_dir():
            inside = _in_folder(path, forced)
            kept = _without_companions(inside, notes, path)
            found += kept
            if not kept:
                if inside:
                    _refuse(inside[0])
                others.append(path)
        elif path != "-" and (one := _recognised(path, forced)) is not None:
            if one.format.role == "refused":
                _refuse(one)
            if one.format.role == "verdicts":
                raise InputError(
                    f"{show_path(path)}: {one.why}: verdicts without attempts",
                    "name the attempts as the dump, and this file with `--join`",
                )
            found.append(one)
        else:
            others.append(path)
    return found, others, notes


def _recognised(path: str, forced: str | None) -> Found | None:
    file = NativeFile(path)
    try:
        sample = file.sample()
    except InputError:
        return None
    finally:
        file.close()
    taken = (FORMATS[forced], "--format") if forced else recognise(sample)
    if taken is None:
        return None
    return Found(path, *taken, run_directory=_run_directory(path, taken[0]))


def _run_directory(path: str, format_: Format) -> str:
    """The folder that holds the run of a file: above that of an instance, and above one for trajectories only."""
    folder = Path(path).resolve().parent
    name = Path(path).name.split(".traj")[0].removesuffix(".pred")
    if format_.name == "harbor" or folder.name == name:
        folder = folder.parent
    return str(folder.parent if folder.name in LOG_FOLDERS else folder)


def _in_folder(path: str, forced: str | None) -> list[Found]:
    files: list[str] = []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        chosen = [name for name in names if name.endswith(SUFFIXES) and not name.startswith(".")]
        files += [str(Path(folder) / name) for name in chosen]
        if len(files) > _MAX_FILES:
            raise InputError(f"{show_path(path)}: more than {_MAX_FILES:,} files")
    recognised = (_recognised(each, None) for each in sorted(files, key=_natural) if Path(each).is_file())
    found = [one for one in recognised if one is not None and forced in (None, one.format.name)]
    if forced is not None and not found:
        raise InputError(f"{show_path(path)}: no file of the format {forced} in this folder")
    return found


def _natural(path: str) -> list[tuple[int, int, str]]:
    """Steps count as numbers: 9.jsonl before 10.jsonl."""
    parts = []
    for part in Path(path).parts:
        digits = part.split(".")[0]
        parts.append((0, int(digits), part) if digits.isdecimal() and len(digits) < 18 else (1, 0, part))
    return parts


def _without_companions(found: Sequence[Found], notes: list[str], path: str) -> list[Found]:
    """The files that are attempts of their own; what is left out is told."""
    logged_runs = {
        each.run_directory for each in found if each.format.name in ("mini-swe-agent", "swe-agent")
    }
    trials = {str(Path(each.path).resolve().parent) for each in found if each.format.name == "harbor"}
    whole_runs = [Path(each.path).resolve().parent for each in found if _is_whole_run(each)]
    kept = []
    left: Counter[str] = Counter()
    for each in found:
        if each.format.role in ("refused", "verdicts"):
            left[f"{each.format.title}"] += 1
        elif each.format.role == "predictions" and each.run_directory in logged_runs:
            left["predictions beside trajectories, used for their patches"] += 1
        elif not _is_part_of(each, trials, whole_runs):
            kept.append(each)
    notes += [
        f"{show_path(path)}: no attempts in {count:,} of its files: {what}" for what, count in left.items()
    ]
    return kept


def _is_part_of(found: Found, trials: set[str], whole_runs: Sequence[Path]) -> bool:
    """Whether a file belongs to a trial of Harbor, or to a run of terminal-bench that has all its trials."""
    place = Path(found.path).resolve()
    if found.format.name == "atif":
        return str(place.parent.parent) in trials
    is_trial = found.format.name == "terminal-bench"
    return is_trial and any(run != place.parent and run in place.parents for run in whole_runs)


def _is_whole_run(found: Found) -> bool:
    return found.format.name == "terminal-bench" and found.why.endswith("a run of terminal-bench")


def _refuse(found: Found) -> None:
    name = show_path(found.path)
    if found.format.role == "verdicts":
        raise InputError(
            f"{name}: {found.why}: verdicts without attempts", "name the attempts, and this with `--join`"
        )
    raise InputError(f"{name}: {found.format.title}: not read: {found.format.needs_join}")
