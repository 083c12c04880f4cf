"""Flaws planted into a passing patch: what comes out is worse by construction, still applies, and still does its job.

Each kind is a function from a patch and a random source to the flawed patch, or None where the patch has no place for it.
Python is changed at lines that are whole statements of their own; other languages get only the flaws that need no
parsing. Controls are patches that are as good as the original.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gagar_cli.core.code_spots import Spot, find_functions, find_spots, is_in_function, is_test_path
from gagar_cli.core.patch import parse_patch, refuse_patch
from gagar_cli.core.patch_editing import EditablePatch, append_section, new_file, read_editable

Plant = Callable[[str, EditablePatch, random.Random], str | None]


class Planted(NamedTuple):
    """A patch with one flaw or more."""

    patch: str
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Flaw:
    """One kind of flaw."""

    plant: Plant
    what: str
    """In a few words, for people."""
    is_tier_3: bool = False
    """Whether the rubric's rules put it into the last tier where it is proven."""


def plant_flaw(patch: str, kind: str, *, seed: int) -> str | None:
    """The patch with a flaw of this kind; None where it has no place for it.

    What comes back parses without problems and differs from the patch. Raises:
        KeyError: there is no such kind.
    """
    editable = read_editable(patch)
    if editable is None or not editable.hunks or editable.render() != patch:
        return None
    planted = FLAWS[kind].plant(patch, editable, random.Random(f"{seed}:{kind}"))  # noqa: S311 - a draw that repeats
    if planted is None or planted == patch:
        return None
    parsed = parse_patch(planted)
    return None if parsed.problems or refuse_patch(parsed) else planted


def plant_flaws(patch: str, kinds: Sequence[str], *, seed: int) -> Planted | None:
    """The patch with several flaws, one on top of the other; None where any has no place."""
    planted = patch
    for kind in kinds:
        flawed = plant_flaw(planted, kind, seed=seed)
        if flawed is None:
            return None
        planted = flawed
    return Planted(planted, tuple(kinds))


def reorder(patch: str) -> str | None:
    """A control: the same changes with the files in another order; None for fewer than two files."""
    starts = [found.start() for found in re.finditer(r"^diff --git ", patch, re.MULTILINE)]
    if len(starts) < 2 or patch[: starts[0]].strip() or not patch.endswith("\n"):
        return None
    sections = [patch[start:end] for start, end in zip(starts, [*starts[1:], len(patch)], strict=True)]
    reordered = "".join(reversed(sections))
    before, after = parse_patch(patch), parse_patch(reordered)
    same = sorted(file.path for file in before.files) == sorted(file.path for file in after.files)
    return reordered if same and not after.problems and reordered != patch else None


def _insert(editable: EditablePatch, spot: Spot, lines: Sequence[str]) -> str:
    """The patch with added lines before a spot, at its indentation."""
    hunk = editable.pieces[spot.piece]
    assert not isinstance(hunk, str)  # noqa: S101 - spots are in hunks
    added = [f"+{spot.indent}{line}" if line else "+" for line in lines]
    body = [*hunk.lines[: spot.line], *added, *hunk.lines[spot.line :]]
    return editable.with_lines(spot.piece, body).render()


def _replace(editable: EditablePatch, spot: Spot, lines: Sequence[str]) -> str:
    """The patch with other added lines in the place of a spot's."""
    hunk = editable.pieces[spot.piece]
    assert not isinstance(hunk, str)  # noqa: S101 - spots are in hunks
    body = [
        *hunk.lines[: spot.line],
        *(f"+{spot.indent}{line}" for line in lines),
        *hunk.lines[spot.line + 1 :],
    ]
    return editable.with_lines(spot.piece, body).render()


def _choose(spots: Sequence[Spot], draw: random.Random) -> Spot | None:
    return draw.choice(spots) if spots else None


def _inserted(lines: Callable[[Spot], Sequence[str]], *, kinds: Sequence[str] = ()) -> Plant:
    def plant(_patch: str, editable: EditablePatch, draw: random.Random) -> str | None:
        spots = [
            one
            for one in find_spots(editable)
            if not is_test_path(one.path) and (not kinds or one.kind in kinds)
        ]
        spot = _choose(spots, draw)
        return None if spot is None else _insert(editable, spot, lines(spot))

    return plant


def _added_file(path: str, lines: Sequence[str]) -> Plant:
    def plant(patch: str, _editable: EditablePatch, _draw: random.Random) -> str | None:
        if any(file.path == path for file in parse_patch(patch).files):
            return None
        return append_section(patch, new_file(path, lines))

    return plant


def _swallow(_patch: str, editable: EditablePatch, draw: random.Random) -> str | None:
    spot = _choose([one for one in find_spots(editable) if one.kind in ("expression", "assignment")], draw)
    if spot is None or is_test_path(spot.path):
        return None
    # The name must be bound whatever happens.
    rescue = f"    {spot.name} = None" if spot.kind == "assignment" else "    pass"
    return _replace(editable, spot, ["try:", f"    {spot.text}", "except Exception:", rescue])


def _special_case(_patch: str, editable: EditablePatch, draw: random.Random) -> str | None:
    spots = [
        one
        for one in find_spots(editable)
        if one.kind == "return" and one.name and not is_test_path(one.path)
    ]
    spot = _choose(spots, draw)
    if spot is None:
        return None
    lines = [f'if str({spot.name}) == "expected by the test":', f"    return {spot.name}"]
    return _insert(editable, spot, lines)


def _duplicate_helper(_patch: str, editable: EditablePatch, draw: random.Random) -> str | None:
    functions = [one for one in find_functions(editable) if not is_test_path(one.path)]
    if not functions:
        return None
    chosen = draw.choice(functions)
    hunk = editable.pieces[chosen.piece]
    assert not isinstance(hunk, str)  # noqa: S101 - functions are in hunks
    copied = [
        line.replace(f"def {chosen.name}(", f"def _{chosen.name.strip('_')}_copy(", 1)
        for line in hunk.lines[chosen.start : chosen.end]
    ]
    body = [*hunk.lines[: chosen.start], *copied, "+", *hunk.lines[chosen.start :]]
    return editable.with_lines(chosen.piece, body).render()


def _reformat_context(_patch: str, editable: EditablePatch, draw: random.Random) -> str | None:
    """A line that the patch leaves alone, written anew with other spaces before a comment of its own."""
    spots = [
        one for one in find_spots(editable, marker=" ") if not is_test_path(one.path) and "#" not in one.text
    ]
    if not spots:
        return None
    chosen = sorted(
        draw.sample(spots, min(4, len(spots))), key=lambda one: (one.piece, one.line), reverse=True
    )
    for spot in chosen:
        hunk = editable.pieces[spot.piece]
        assert not isinstance(hunk, str)  # noqa: S101 - spots are in hunks
        old = hunk.lines[spot.line][1:]
        changed = [f"-{old}", f"+{spot.indent}{spot.text}  # reviewed"]
        body = [*hunk.lines[: spot.line], *changed, *hunk.lines[spot.line + 1 :]]
        editable = editable.with_lines(spot.piece, body)
    return editable.render()


def _rewrite_context(_patch: str, editable: EditablePatch, draw: random.Random) -> str | None:
    """Lines that the patch leaves alone, written anew by way of one more name."""
    spots = [
        one
        for one in find_spots(editable, marker=" ")
        if not is_test_path(one.path)
        and "#" not in one.text
        and (one.text.startswith("return ") or _is_plain_assignment(editable, one))
    ]
    chosen = sorted(
        draw.sample(spots, min(4, len(spots))), key=lambda one: (one.piece, one.line), reverse=True
    )
    for spot in chosen:
        name = f"rewritten_{spot.name or 'outcome'}"
        value = spot.text.removeprefix("return ").removeprefix(f"{spot.name} = ")
        end = f"return {name}" if spot.kind == "return" else f"{spot.name} = {name}"
        hunk = editable.pieces[spot.piece]
        assert not isinstance(hunk, str)  # noqa: S101 - spots are in hunks
        changed = [f"-{spot.indent}{spot.text}", f"+{spot.indent}{name} = {value}", f"+{spot.indent}{end}"]
        body = [*hunk.lines[: spot.line], *changed, *hunk.lines[spot.line + 1 :]]
        editable = editable.with_lines(spot.piece, body)
    return editable.render() if chosen else None


def _is_plain_assignment(editable: EditablePatch, spot: Spot) -> bool:
    """Of one name, in a function: a class may count its names."""
    return (
        spot.kind == "assignment"
        and spot.text.startswith(f"{spot.name} = ")
        and is_in_function(editable, spot)
    )


def _bad_style(_patch: str, editable: EditablePatch, draw: random.Random) -> str | None:
    spots = [one for one in find_spots(editable) if _is_plain_assignment(editable, one)]
    spot = _choose([one for one in spots if not is_test_path(one.path)], draw)
    if spot is None:
        return None
    value = spot.text.split(" = ", 1)[1]
    return _replace(editable, spot, [f"TmpValue_X=( {value} )", f"{spot.name}=TmpValue_X"])


def _weaken_test(_patch: str, editable: EditablePatch, draw: random.Random) -> str | None:
    spots = [one for one in find_spots(editable) if one.kind == "assert" and is_test_path(one.path)]
    spot = _choose(spots, draw)
    return None if spot is None else _replace(editable, spot, ["assert True"])


FLAWS: Mapping[str, Flaw] = {
    "debug_print": Flaw(_inserted(lambda _: ['print("DEBUG: reached here")']), "a debug print is left in"),
    "scratch_file": Flaw(
        _added_file(
            "reproduce_issue.py",
            [
                '"""Reproduce the issue."""',
                "import sys",
                "",
                'print("python", sys.version)',
                'print("trying to reproduce the issue ...")',
            ],
        ),
        "a scratch file is left behind",
    ),
    "dead_code": Flaw(
        _inserted(lambda _: ["if False:", "    unused_value = None"]), "a branch that can never run is added"
    ),
    "comment_noise": Flaw(
        _inserted(
            lambda _: [
                "# This is the line where the change is made.",
                "# First the value is computed here,",
                "# then the value that was computed is used,",
                "# and after that the function goes on.",
                "# NOTE: the fix for the issue is right below.",
            ]
        ),
        "comments that say nothing",
    ),
    "swallowed_exception": Flaw(_swallow, "every error is caught and dropped"),
    "special_case": Flaw(_special_case, "the test's input is special-cased", is_tier_3=True),
    "duplicated_helper": Flaw(_duplicate_helper, "a helper is there twice"),
    "reformatted_lines": Flaw(_reformat_context, "lines are touched that have nothing to do with it"),
    "larger_rewrite": Flaw(_rewrite_context, "working lines are rewritten without need"),
    "hard_coded_path": Flaw(
        _inserted(lambda _: ['working_copy = "/home/developer/projects/checkout"']),
        "a path of somebody's machine is written into the code",
    ),
    "bad_style": Flaw(_bad_style, "names and spacing against the file's habits"),
    "needless_dependency": Flaw(
        _added_file("requirements-extra.txt", ["requests>=2.0", "pandas>=2.0"]), "a dependency nobody needs"
    ),
    "unrelated_file": Flaw(
        _added_file(
            "tools/cleanup_workspace.py",
            [
                "import shutil",
                "",
                "",
                "def remove_build_directories(paths):",
                "    for path in paths:",
                "        shutil.rmtree(path, ignore_errors=True)",
            ],
        ),
        "a tool that has nothing to do with the task",
    ),
    "weakened_test": Flaw(_weaken_test, "an assertion that the attempt itself added checks nothing"),
}
"""Kind to flaw."""
