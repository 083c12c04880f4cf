"""What a path and a line are by convention: kinds of files, languages, comments, functions. Textual, never parsed.

Patches show fragments, so nothing here needs a whole file. Where a convention is not known, a line counts as code.
"""

import keyword
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from gagar_cli.grader.offline.facts import Candidate, Hunk, PatchedFile, ShownLine

FileKind = Literal["source", "test", "settings", "docs", "scratch"]

_LANGUAGES = {
    **dict.fromkeys((".py", ".pyi", ".pyx"), "python"),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".vue"), "javascript"),
    **dict.fromkeys((".c", ".h", ".cc", ".cpp", ".hpp", ".cxx"), "c"),
    **dict.fromkeys((".java", ".kt", ".scala", ".cs"), "java"),
    ".go": "go",
    ".rs": "rust",
    ".rb": "ruby",
    ".sh": "shell",
}
_COMMENTS = {
    **dict.fromkeys(("python", "ruby", "shell"), re.compile(r"^\s*#")),
    **dict.fromkeys(("javascript", "c", "java", "go", "rust"), re.compile(r"^\s*(?://|/\*|\*(?:\s|/|$))")),
}
_DOCS = {".md", ".rst", ".txt", ".adoc"}
_SETTINGS = re.compile(
    r"(?:^|/)(?:\.github/|\.circleci/|\.gitlab-ci|\.travis\.yml|azure-pipelines|Jenkinsfile|Dockerfile|Makefile$|tox\.ini$"
    r"|noxfile\.py$|setup\.(?:py|cfg)$|pyproject\.toml$|pytest\.ini$|\.pre-commit|package(?:-lock)?\.json$|yarn\.lock$"
    r"|requirements[^/]*\.txt$|Cargo\.(?:toml|lock)$|go\.(?:mod|sum)$|pom\.xml$|build\.gradle|\.gitignore$|\.coveragerc$)"
)
_TEST = re.compile(
    r"(?:^|/)(?:tests?|testing|__tests__|spec)/|(?:^|/)(?:test_[^/]*|conftest)\.py$|_test\.(?:py|go|rs|c|cc|cpp)$"
    r"|\.(?:test|spec)\.[jt]sx?$|Tests?\.(?:java|kt|cs)$"
)
_SCRATCH = re.compile(
    r"(?:^|/)(?:[^/]*(?:reproduc|replicat|simulat|scratch|debug_|_bug|bug_)[^/]*|(?:debug|tmp|temp|foo|try|demo|check|verify|validate)[^/]*\.py"
    r"|[^/]*\.(?:orig|rej|bak|swp|pyc|log|patch|diff)|\.DS_Store)$|(?:^|/)(?:__pycache__|\.pytest_cache|node_modules)/",
    re.IGNORECASE,
)
_FUNCTIONS = {
    "python": re.compile(r"^\s*(?:async\s+)?def\s+(\w+)\s*\("),
    "javascript": re.compile(
        r"^\s*(?:export\s+)?(?:async\s+)?(?:function\s*\*?\s*(\w+)|(?:const|let)\s+(\w+)\s*=.*=>\s*\{\s*$)"
    ),
    "go": re.compile(r"^func\s+(?:\([^)]*\)\s*)?(\w+)\s*\("),
    "rust": re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?fn\s+(\w+)"),
}
STRINGS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_ADJACENT_WORDS = re.compile(r"\b([A-Za-z_]\w*)[ \t]+(?=([A-Za-z_]\w*))")
_KEYWORDS = {*keyword.kwlist, *keyword.softkwlist, "print", "exec", "cdef", "cpdef"}


class Function(NamedTuple):
    """A function that a patch adds whole."""

    name: str
    line: ShownLine
    body: tuple[ShownLine, ...]
    is_decorated: bool


def language_of(path: str) -> str:
    """The language by the file's ending; empty where it is not known."""
    return _LANGUAGES.get(PurePosixPath(path).suffix.lower(), "")


def kind_of(file: PatchedFile) -> FileKind:
    """What a file is for, by its path and by whether the patch adds it."""
    path = PurePosixPath(file.path)
    if file.change == "added" and is_scratch(file.path):
        return "scratch"
    if _SETTINGS.search(file.path):
        return "settings"
    if is_test_path(file.path):
        return "test"
    if path.suffix.lower() in _DOCS or path.parts[0] in ("doc", "docs") or _is_notice(path):
        return "docs"
    return "source"


def _is_notice(path: PurePosixPath) -> bool:
    """README, LICENSE and their like."""
    return path.stem.isupper() and path.suffix.lower() not in _LANGUAGES


def is_test_path(path: str) -> bool:
    """Whether the path is a test's by convention."""
    return bool(_TEST.search(path))


def source_files(candidate: Candidate) -> Iterator[tuple[PatchedFile, str]]:
    """The source files of a patch, each with its language."""
    for file in candidate.files:
        if kind_of(file) == "source":
            yield file, language_of(file.path)


def is_scratch(path: str) -> bool:
    """Whether a new file looks like a note to self: a reproduction, a test script at the root, an editor's leftover."""
    parts = PurePosixPath(path).parts
    is_root_test = len(parts) == 1 and bool(re.search(r"test[^/]*\.(?:py|js|ts|sh)$", path, re.IGNORECASE))
    return is_root_test or bool(_SCRATCH.search(path))


def is_comment(text: str, language: str) -> bool:
    """Whether the whole line is a comment."""
    pattern = _COMMENTS.get(language)
    return bool(pattern and pattern.match(text))


def indent_of(text: str) -> int:
    """The width of the leading white space, a tab counting as eight."""
    expanded = text.expandtabs(8)
    return len(expanded) - len(expanded.lstrip())


def code_lines(lines: Iterable[ShownLine], language: str) -> list[ShownLine]:
    """The lines that are neither blank nor comments nor, in Python, prose of a docstring."""
    code = []
    in_docstring = False
    for line in lines:
        stripped = line.text.strip()
        n_quotes = stripped.count('"""') + stripped.count("'''") if language == "python" else 0
        starts_docstring = n_quotes > 0 and stripped.lstrip("rbuRBU")[:3] in ('"""', "'''")
        is_documentation = in_docstring or starts_docstring
        if n_quotes % 2:
            in_docstring = not in_docstring
        is_note = is_documentation or is_comment(line.text, language)
        if stripped and not is_note and not (language == "python" and is_prose(stripped)):
            code.append(line)
    return code


def is_prose(text: str) -> bool:
    """Whether a line cannot be Python: two plain words stand side by side and neither is a keyword."""
    bare = STRINGS.sub("''", text).partition("#")[0]
    return text.startswith((">>>", "...", ":param", ".. ")) or any(
        not _KEYWORDS.intersection(pair) for pair in _ADJACENT_WORDS.findall(bare)
    )


def added_functions(file: PatchedFile) -> list[Function]:
    """The functions whose head and body the patch adds in one run."""
    pattern = _FUNCTIONS.get(language_of(file.path))
    if pattern is None:
        return []
    functions = []
    for hunk in file.hunks:
        lines = [line for line in hunk.lines if line.marker != "-"]
        removed = "\n".join(line.text for line in hunk.lines if line.marker == "-")
        for position, line in enumerate(lines):
            match = pattern.match(line.text) if line.marker == "+" else None
            name = match[match.lastindex or 1] if match else None
            if name is None or re.search(rf"\b{name}\b\s*[(=]", removed):
                continue
            body = _body_below(lines, position)
            decorator = lines[position - 1].text.strip() if position else ""
            if all(part.marker == "+" for part in body):
                functions.append(Function(name, line, tuple(body), decorator.startswith("@")))
    return functions


def _body_below(lines: Sequence[ShownLine], head: int) -> list[ShownLine]:
    indent = indent_of(lines[head].text)
    body: list[ShownLine] = []
    for line in lines[head + 1 :]:
        if line.text.strip() and indent_of(line.text) <= indent and line.text.strip()[0] not in ")]}":
            break
        if line.marker != "+" and not line.text.strip():
            break
        body.append(line)
    while body and not body[-1].text.strip():
        body.pop()
    return body


def moved_texts(lines: Iterable[ShownLine]) -> set[str]:
    """The texts that are removed and added again, perhaps deeper or elsewhere."""
    texts: dict[str, set[str]] = {"-": set(), "+": set(), " ": set()}
    for line in lines:
        texts[line.marker].add(line.text.strip())
    return (texts["-"] & texts["+"]) - {""}


def changed_runs(hunk: Hunk) -> list[tuple[ShownLine, ...]]:
    """The unbroken runs of removed and added lines."""
    runs: list[list[ShownLine]] = [[]]
    for line in hunk.lines:
        if line.marker == " ":
            runs.append([])
        else:
            runs[-1].append(line)
    return [tuple(run) for run in runs if run]
