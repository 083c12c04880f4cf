"""File names and modes of a patch: as diff headers write them, and which are refused.

Names are untrusted. Reading one never raises; bytes that are not UTF-8 stay as surrogate escapes. What is refused
here is never handed to a sandbox: names that leave the repository or reach into a git directory under any spelling
that some file system accepts, and modes that make links, submodules, devices or set-user-id files.
"""

import re

MAX_PATH_CHARS = 4096
MAX_COMPONENT_BYTES = 255
MAX_HEADER_CHARS = 4 * MAX_PATH_CHARS
"""Of a header line; octal escapes take four characters a byte. What is longer is cut, and refused as too long."""

_ESCAPE = re.compile(r'\\([0-3][0-7]{2}|[abtnvfr"\\])')
_ESCAPED = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_QUOTED_LAST = re.compile(r' "((?:[^"\\]|\\.)*)"$')
_TIMESTAMP = re.compile(r"\s+\d{4}-\d\d-\d\d \d\d:\d\d\S*(?: [+-]\d{4})?\s*$")
_TIMESTAMP_CHARS = 48
"""Only the end of a name is searched: the pattern is quadratic in a run of blanks."""
_SLASHES = re.compile(r"/{2,}")
_SEPARATOR = re.compile(r"[/\\]")
# HFS+ leaves these out when it compares names, so `.g<U+200C>it` opens `.git` there.
_IGNORED_BY_HFS = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_GIT_DIRECTORY = re.compile(r"\.git[. ]*(?::.*)?|git~\d+[. ]*(?::.*)?", re.IGNORECASE | re.DOTALL)
_GIT_MODULES = re.compile(r"\.gitmodules[. ]*|gitmod~\d+[. ]*|gi7eba~\d+[. ]*", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")


def unquote_name(quoted: str) -> str:
    r"""The name inside a header's double quotes, with its C escapes undone.

    >>> unquote_name(r"a/\303\244.py")
    'a/ä.py'
    """
    parts = _ESCAPE.split(quoted)
    raw = bytearray(parts[0].encode("utf-8", "surrogatepass"))
    for code, plain in zip(parts[1::2], parts[2::2], strict=True):
        raw.append(_ESCAPED[code] if code in _ESCAPED else int(code, 8))
        raw += plain.encode("utf-8", "surrogatepass")
    return raw.decode("utf-8", "surrogateescape")


def read_name(text: str) -> str:
    """The name that a header line holds after its keyword: quoted, or up to a tab or a timestamp."""
    text = text[:MAX_HEADER_CHARS]
    if match := _QUOTED.match(text):
        return unquote_name(match[1])
    name = text.split("\t", 1)[0]
    return name[:-_TIMESTAMP_CHARS] + _TIMESTAMP.sub("", name[-_TIMESTAMP_CHARS:])


def strip_prefix(name: str) -> str | None:
    """The name without its first component (`a/`, `b/`), as `git apply -p1` takes it; None if it has one only."""
    _, slash, rest = name.partition("/")
    return _SLASHES.sub("/", rest) if slash and rest else None


def shared_name(text: str) -> str | None:
    """The name that both halves of a `diff --git` line give, without prefixes; None where they differ.

    Names may hold blanks, which makes the line ambiguous: the middle one is tried.

    >>> shared_name("a/my file b/my file")
    'my file'
    """
    text = text[:MAX_HEADER_CHARS]
    if match := _QUOTED.match(text):
        old, new = unquote_name(match[1]), read_name(text[match.end() :].lstrip())
    elif text.endswith('"') and (match := _QUOTED_LAST.search(text)):
        old, new = text[: match.start()], unquote_name(match[1])
    elif text.count(" ") == 1:
        old, _, new = text.partition(" ")
    else:
        middle = len(text) // 2
        old, new = text[:middle], text[middle + 1 :]
    name = strip_prefix(old)
    return name if name == strip_prefix(new) else None


def why_path_is_refused(path: str) -> str | None:
    """The reason why no patch may touch this path, or None."""
    if not path or "\0" in path:
        return "path is empty or holds a NUL"
    if len(path) > MAX_PATH_CHARS:
        return f"path is longer than {MAX_PATH_CHARS} characters"
    if path[0] in "/\\" or _DRIVE.match(path):
        return "path is absolute"
    for component in _SEPARATOR.split(path):
        plain = _IGNORED_BY_HFS.sub("", component)
        if plain.strip(" ") == "..":
            return "path leaves the repository"
        if plain in ("", "."):
            return "path has an empty component"
        if _GIT_DIRECTORY.fullmatch(plain):
            return "path is in a git directory"
        if _GIT_MODULES.fullmatch(plain):
            return "path declares submodules"
        if len(component.encode("utf-8", "surrogatepass")) > MAX_COMPONENT_BYTES:
            return f"path has a component of more than {MAX_COMPONENT_BYTES} bytes"
    return None


def why_mode_is_refused(mode: str) -> str | None:
    """The reason why no patch may give a file this octal mode, or None."""
    kind, permissions = mode[:-4], mode[-4:]
    if kind == "12":
        return "mode makes a symbolic link"
    if kind == "16":
        return "mode makes a submodule"
    if kind != "10" or permissions[0] != "0":
        return f"mode {mode} is not of a plain file"
    return None
