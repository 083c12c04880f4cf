"""A patch as the files that it leaves, for images that have no git: worked out here, written by the shell there.

Only text, and only where every hunk fits its lines exactly (`core/patch.py`); git would allow an offset. The names come
out of a patch: the shell gets them quoted, goes down one directory at a time and refuses links, wherever they lead.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gagar_cli.core.patch import PatchConflict, PatchFile, apply_file, parse_patch, refuse_patch
from gagar_cli.errors import CheckoutError

Read = Callable[[Sequence[str]], Mapping[str, bytes | None]]
"""Given paths of the base tree: their content, None where there is no regular file."""

# `head` and `tail` read a file of their own each time: some implementations take more of a stream than they give.
WRITE_FILES = r"""
cat >/tmp/.edits && head -c "$n_words" /tmp/.edits >/tmp/.words || refuse "the patch cannot be kept"
way() {
    rest=$1 at=.
    while :; do
        case $rest in */*) ;; *) break ;; esac
        at=$at/${rest%%/*} rest=${rest#*/}
        [ ! -h "$at" ] || refuse "$1 is beyond a symbolic link"
        [ -d "$at" ] || mkdir "$at" || refuse "$1 cannot be made"
    done
    [ ! -h "./$1" ] && [ ! -d "./$1" ] || refuse "$1 is not a file"
}
put() {
    way "$1"
    tail -c "+$2" /tmp/.edits | head -c "$3" >"./$1" || refuse "$1 cannot be written"
}
mode() { chmod "$2" "./$1" || refuse "$1 cannot be changed"; }
twin() { way "$1"; way "$2"; cp "./$1" "./$2" || refuse "$2 cannot be written"; }
drop() {
    way "$1"
    rm "./$1" || refuse "$1 cannot be removed"
    case $1 in */*) rmdir -p "./${1%/*}" 2>/dev/null ;; esac
}
. /tmp/.words
rm -f /tmp/.edits /tmp/.words
"""
"""For `launcher.py`: takes what `encode_edits` makes from stdin; `n_words` is the length of its first part."""


class Edits(NamedTuple):
    """What goes to the shell."""

    content: bytes
    n_words: int
    """Bytes of `content` that are words for the shell; the files' new content follows."""


def plan_edits(patch: str, read: Read) -> Edits:
    """The patch over the base tree that `read` knows.

    Raises:
        CheckoutError: it is refused, or does not fit.
    """
    parsed = parse_patch(patch)
    if refusals := (*parsed.problems, *refuse_patch(parsed)):
        raise CheckoutError(f"the patch is refused: {refusals[0]}")
    paths = dict.fromkeys(file.old_path or file.path for file in parsed.files)
    base = read(list(paths))
    files = dict(base)
    words: list[str] = []
    contents: list[bytes] = []
    for file in parsed.files:
        is_twin = file.change in ("renamed", "copied")
        before = (base if is_twin else files).get(file.old_path or file.path)
        after = _apply(file, before)
        words += _words(file, after, 1 + sum(map(len, contents)))
        contents.append(after)
        if file.old_path and file.change in ("deleted", "renamed"):
            files[file.old_path] = None
        if file.change != "deleted":
            files[file.path] = after
    told = "".join(f"{line}\n" for line in words).encode("utf-8", "surrogateescape")
    return Edits(told + b"".join(contents), len(told))


def _apply(file: PatchFile, before: bytes | None) -> bytes:
    try:
        after = apply_file(file, None if before is None else before.decode("utf-8", "surrogateescape"))
    except PatchConflict as error:
        raise CheckoutError(f"{error.message}, and the sandbox has no git to try") from error
    return after.encode("utf-8", "surrogateescape")


def _words(file: PatchFile, after: bytes, start: int) -> list[str]:
    """What the shell does for one file; `start` is its content's first byte after the words."""
    path = shlex.quote(file.path)
    if file.change == "deleted":
        return [f"drop {path}"]
    words = []
    if file.change in ("renamed", "copied") and file.old_path:
        # For its mode.
        words.append(f"twin {shlex.quote(file.old_path)} {path}")
        words += [f"drop {shlex.quote(file.old_path)}"] if file.change == "renamed" else []
    words.append(f"put {path} $((n_words + {start})) {len(after)}")
    if file.new_mode is not None:
        words.append(f"mode {path} {'755' if int(file.new_mode, 8) & 0o100 else '644'}")
    return words
