"""The script that starts every command inside a sandbox, and what its first words mean.

It lays out a fresh checkout, applies the candidate's patch and becomes the command. It is the only program of ours
in there, in POSIX shell since images need not have Python. The patch arrives on stdin. `git apply` runs without a
repository (`GIT_DIR` names none) and without system or user configuration, so that nothing in the tree is executed.

It speaks first on stderr: `ready` once the patch is applied, or `refused` and the reason. Nothing of the candidate's
has run by then, so neither can be forged. A stream that starts otherwise means that the sandbox was not set up.
"""

from pathlib import PurePosixPath
from typing import NamedTuple

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import CheckoutError
from gagar_cli.sandbox.base import Command

CHECKOUT = "/checkout"
"""Where a candidate's tree is, in every sandbox."""
BASE = "/base"
"""Where the base tree is bound, read-only, when it has to be copied."""
MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_INODES = 100_000
SHARED_MEMORY_BYTES = 16 * 1024 * 1024
HOME = "/tmp"  # noqa: S108 - inside the sandbox, where it is a private tmpfs

GO = b"go\n"
"""What a launcher waits for on stdin that was told to: without it, it ends."""
PATCH_FILE = f"{HOME}/.patch"
"""Where the patch is for a launcher that waits."""

_HERE = b"here\n"
_READY = b"ready\n"
_REFUSED = b"refused\n"
_NO_GIT = "the sandbox has no git to apply the patch with"
_SCRIPT = r"""
source=$1 has_patch=$2 limits=$3 checkout=$4 cwd=$5 words=$6 waits=$7
shift 7
if [ -n "$waits" ]; then
    echo here >&2
    read -r waits || exit 1
    [ ! -f /tmp/.patch ] || { exec </tmp/.patch && rm /tmp/.patch; } || exit 1
fi
refuse() { printf 'refused\n%s\n' "$1" >&2; exit 1; }
umask 022
cd "$checkout" || exit 1
if [ -n "$source" ]; then
    [ -d "$source" ] || refuse "there is no directory $source in the image"
    if command -v tar >/dev/null; then
        tar -C "$source" --exclude=./.git -cf - . 2>/tmp/.copy | tar -xf - 2>>/tmp/.copy
    else
        { cp -R -P "$source/." . && rm -rf ./.git; } 2>/tmp/.copy
    fi
    [ -s /tmp/.copy ] && refuse "the repository cannot be copied: $(head -c 400 /tmp/.copy)"
    rm -f /tmp/.copy
fi
if [ -n "$words" ]; then
    eval "$words"
elif [ "$has_patch" = yes ]; then
    command -v git >/dev/null || refuse "NO_GIT"
    message=$(GIT_DIR=/nonexistent GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null HOME=/nonexistent \
        git apply --whitespace=nowarn - 2>&1) || refuse "$message"
fi
while [ -n "$cwd" ]; do
    part=${cwd%%/*} cwd=${cwd#"${cwd%%/*}"} cwd=${cwd#/}
    { [ -d "./$part" ] && [ ! -h "./$part" ] && cd "./$part"; } || refuse "$part is not a plain directory to start in"
done
for limit in $limits; do
    option=${limit%%=*} value=${limit#*=}
    # Shells disagree on the letter for the number of processes.
    if [ "$option" = u ]; then ulimit -u "$value" 2>/dev/null && continue; option=p; fi
    ulimit "-$option" "$value" || exit 1
done
printf 'ready\n' >&2
exec "$@" </dev/null
""".replace("NO_GIT", _NO_GIT)


def launch_arguments(
    command: Command,
    *,
    source: str = "",
    has_patch: bool,
    limits: str = "",
    checkout: str = CHECKOUT,
    cwd: str = ".",
    words: str = "",
    waits: bool = False,
) -> list[str]:
    """The argument list that runs a command in a fresh, patched checkout.

    `source` is copied into `checkout` (empty: it is there already), `limits` are words like `n=256` for `ulimit`.
    With `words` the shell runs these instead of `git apply`; what they want comes in the patch's place, on stdin.
    One that `waits` says that it is there, and does nothing before it is told to go.

    Raises:
        CheckoutError: `cwd` is not a relative path that stays in the checkout.
    """
    prefix = [
        "/bin/sh",
        "-c",
        _SCRIPT,
        "sh",
        source,
        "yes" if has_patch else "no",
        limits,
        checkout,
        _plain_path(cwd),
        words,
        "yes" if waits else "",
    ]
    return [*prefix, *(["sh", "-c", command] if isinstance(command, str) else command)]


def encode_patch(patch: str) -> bytes:
    """The patch as `git apply` reads it; empty where there is nothing to apply."""
    if not patch.strip():
        return b""
    raw = patch.encode("utf-8", "surrogateescape")
    return raw if raw.endswith(b"\n") else raw + b"\n"


class LaunchReport(NamedTuple):
    """What stderr says about the start of a command."""

    is_ready: bool
    stderr: bytes
    """What the command itself wrote."""


def read_launch(stderr: bytes) -> LaunchReport:
    """Tell the launcher's words from the command's.

    Raises:
        CheckoutError: the patch does not apply, or the checkout cannot be made.
    """
    stderr = stderr.removeprefix(_HERE)
    if stderr.startswith(_READY):
        return LaunchReport(True, stderr[len(_READY) :])
    if stderr.startswith(_REFUSED):
        reason = _one_line(stderr[len(_REFUSED) :])
        raise CheckoutError(f"the checkout cannot be made: {reason}", is_for_git=reason == _NO_GIT)
    return LaunchReport(False, stderr)


def describe_failure(stderr: bytes) -> str:
    """Why a sandbox was not set up, as one printable line."""
    return _one_line(stderr) or "it ended without a word"


def _plain_path(cwd: str) -> str:
    """A directory below the checkout without dots; empty for the checkout itself."""
    path = PurePosixPath(cwd)
    if not cwd or path.is_absolute() or ".." in path.parts or "\0" in cwd:
        shown = shorten(escape_untrusted(cwd, keep_newlines=False), 80)
        raise CheckoutError(f"cwd is {shown!r}, expected a relative path that stays in the checkout")
    return "/".join(path.parts)


def _one_line(message: bytes) -> str:
    lines = message.decode("utf-8", "replace").strip().splitlines()
    return shorten("; ".join(escape_untrusted(line, keep_newlines=False) for line in lines[:3]), 300)
