"""Files of a folder that belong to others: predictions beside trajectories, a trajectory inside a trial, broken attempts.

What cannot be read is no attempt only where nothing speaks for it: a file that lies or is named as attempts do is one that
broke, and is told as a bad record.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gagar_cli.core.text import counted
from gagar_cli.errors import InputError
from gagar_cli.io.foreign import ForeignError
from gagar_cli.io.formats import FORMATS, base
from gagar_cli.io.native_found import Found
from gagar_cli.io.streams import show_path

_MAX_SHOWN = 3
_ELSEWHERE = "predictions beside trajectories, a link that leads out of the run: not used"
_ENDINGS = {".traj.json": "mini-swe-agent", ".traj": "swe-agent"}
"""Names that only attempts have."""


def broken_attempts(
    broken: Mapping[str, InputError], found: Sequence[Found], notes: list[str], path: str
) -> list[Found]:
    """Those of the files that cannot be read which lie or are named as attempts do; the others are told.

    Reading one gives the error, which is that of a bad record.
    """
    kinds: dict[tuple[str, str], base.Format] = {}
    for one in found:
        place = Path(one.path)
        kinds.setdefault((str(place.parent), place.suffix), one.format)
        kinds.setdefault((place.name, ""), one.format)
    made, rest = [], []
    for each, problem in broken.items():
        place = Path(each)
        by_name = next((FORMATS[name] for ending, name in _ENDINGS.items() if each.endswith(ending)), None)
        kind = kinds.get((str(place.parent), place.suffix)) or kinds.get((place.name, "")) or by_name
        if kind is None:
            rest.append(problem.message)
            continue
        folder = place.parent.parent if place.parent.name == place.name.split(".traj")[0] else place.parent
        is_lines = ".jsonl" in place.suffixes and not isinstance(problem, ForeignError)
        made.append(Found(each, kind, "its name", str(folder.resolve()), "lines" if is_lines else "document"))
    if rest:
        what = counted(len(rest), "of its files cannot be read and is", "of its files cannot be read and are")
        notes.append(f"{show_path(path)}: {what} left out: {'; '.join(rest[:_MAX_SHOWN])}")
    return made


def without_companions(found: Sequence[Found], notes: list[str], path: str) -> list[Found]:
    """The files that are attempts of their own; what is left out is told."""
    logged_runs = {
        each.run_directory for each in found if each.format.name in ("mini-swe-agent", "swe-agent")
    }
    trials = {str(Path(each.path).parent.resolve()) for each in found if each.format.name == "harbor"}
    whole_runs = [Path(each.path).parent.resolve() for each in found if _is_whole_run(each)]
    whole_steps = {str(Path(each.path).parent) for each in found if each.format.name == "verifiers-1"}
    kept = []
    left: Counter[str] = Counter()
    for each in found:
        if each.format.role in ("refused", "verdicts"):
            left[f"{each.format.title}"] += 1
        elif each.format.role == "predictions" and each.run_directory in logged_runs:
            is_own = not leads_out(Path(each.path), each.run_directory)
            left["predictions beside trajectories, used for their patches" if is_own else _ELSEWHERE] += 1
        elif str(Path(each.path).parent) in whole_steps and _whole_step(each.path) in whole_steps:
            left["a step's effective episodes, which are among all of them"] += 1
        elif not _is_part_of(each, trials, whole_runs):
            kept.append(each)
    notes += [
        f"{show_path(path)}: no attempts in {count:,} of its files: {what}" for what, count in left.items()
    ]
    return kept


def leads_out(path: Path, folder: str) -> bool:
    """Whether a path below a folder is brought by a link from outside of it: it may be any file of this machine."""
    return not path.resolve().is_relative_to(Path(folder).resolve())


def note_of_links(paths: Sequence[str], named: Sequence[str]) -> Iterator[str]:
    """What is told of files in a named folder that links bring from outside of it; one that is named itself is meant."""
    links = [each for each in paths if Path(each).is_symlink()]
    for folder in named if links else ():
        if folder == "-" or not Path(folder).is_dir():
            continue
        inside = [each for each in links if each not in named and Path(each).is_relative_to(folder)]
        out = [each for each in inside if leads_out(Path(each), folder)]
        if out:
            shown = ", ".join(show_path(each) for each in out[:_MAX_SHOWN])
            are = counted(len(out), "of its files is a link", "of its files are links")
            lead = "leads" if len(out) == 1 else "lead"
            yield f"{show_path(folder)}: {are} that {lead} out of it, and read: {shown}"


def _is_part_of(found: Found, trials: set[str], whole_runs: Sequence[Path]) -> bool:
    """Whether a file belongs to a trial of Harbor, or to a run of terminal-bench that has all its trials."""
    if found.format.name not in ("atif", "terminal-bench"):
        return False
    # Where it lies, whatever its own name links to.
    place = Path(found.path).parent.resolve() / Path(found.path).name
    if found.format.name == "atif":
        return str(place.parent.parent) in trials
    return any(run != place.parent and run in place.parents for run in whole_runs)


def _whole_step(path: str) -> str | None:
    """The folder with all episodes of a step of prime-rl, for a file that has those it trained on once more."""
    folder = Path(path).parent
    return str(folder.with_name("all")) if folder.name == "effective" else None


def _is_whole_run(found: Found) -> bool:
    return found.format.name == "terminal-bench" and found.why.endswith("a run of terminal-bench")
