"""Rules about formatting: changes that change nothing, and white space that the project does not use."""

import re
from collections.abc import Sequence

from gagar_cli.grader.offline.blemishes import Blemish, blemish, count, quote
from gagar_cli.grader.offline.facts import Candidate, Group, PatchedFile, ShownLine
from gagar_cli.grader.offline.source import STRINGS, changed_runs, indent_of, is_comment, kind_of, language_of

_COMMENT_BEHIND = re.compile(r"(?<=\S)\s+#\s.*$")
_MANY = 5
_MOST = 20


def rule_churn(candidate: Candidate, _group: Group) -> Sequence[Blemish]:
    """Lines removed and added again with nothing changed but white space, quotes or a comment's words."""
    churn: list[tuple[PatchedFile, ShownLine]] = []
    for file in candidate.files:
        if kind_of(file) == "scratch":
            continue
        language = language_of(file.path)
        for hunk in file.hunks:
            runs = changed_runs(hunk)
            for run in runs:
                churn += [(file, line) for line in find_churn(run)]
            if all(is_comment(line.text, language) or not line.text.strip() for run in runs for line in run):
                churn += [
                    (file, line) for run in runs for line in run if line.marker == "-" and line.text.strip()
                ]
    if not churn:
        return []
    file, line = max(churn, key=lambda entry: len(entry[1].text.strip()))
    costs = {"minimality": 1}
    if len(churn) >= _MANY:
        costs = {"minimality": 2}
    if len(churn) >= _MOST:
        costs = {"minimality": 3, "side_effects": 1, "consistency": 1}
    claim = f"rewrites {count(len(churn), 'line')} without changing what they do"
    return blemish("churn", claim, quote(line, file.lines), costs=costs)


def find_churn(run: Sequence[ShownLine]) -> list[ShownLine]:
    """The removed lines of a run that come back changed in form only."""
    removed = [line for line in run if line.marker == "-" and line.text.strip()]
    added = [line for line in run if line.marker == "+" and line.text.strip()]
    if not removed or not added:
        return []
    if _folded(removed) == _folded(added):
        return removed
    same_depth = {(_fold(line.text), indent_of(line.text)) for line in added}
    verbatim = {line.text for line in added}
    return [
        line
        for line in removed
        if (_fold(line.text), indent_of(line.text)) in same_depth
        and line.text not in verbatim
        and len(_fold(line.text)) > 3
    ]


def _fold(text: str) -> str:
    """The text without white space and a comment behind it, with one kind of quotes; strings are kept."""
    comment = _COMMENT_BEHIND.search(STRINGS.sub(lambda found: "'" * len(found[0]), text))
    if comment:
        text = text[: comment.start()]
    code = STRINGS.split(text)
    strings = [f"'{match[0][1:-1]}'" for match in STRINGS.finditer(text)] + [""]
    return "".join(re.sub(r"\s+", "", part) + string for part, string in zip(code, strings, strict=True))


def _folded(lines: Sequence[ShownLine]) -> str:
    return re.sub(r",(?=[)\]}])|\\$", "", "".join(_fold(line.text) for line in lines))


def rule_whitespace(candidate: Candidate, _group: Group) -> Sequence[Blemish]:
    """Trailing white space, or tabs among blanks."""
    for file in candidate.files:
        if kind_of(file) not in ("source", "test"):
            continue
        uses_blanks = any(line.text.startswith("    ") for line in file.lines if line.marker != "+")
        trailing = [line for line in file.added if line.text.rstrip("\r") != line.text.rstrip()]
        tabs = [line for line in file.added if line.text.startswith("\t") and uses_blanks]
        for lines, claim in ((trailing, "trailing white space"), (tabs, "tabs where the file has blanks")):
            if lines:
                return blemish(
                    "white space",
                    f"adds {count(len(lines), 'line')} with {claim}",
                    quote(lines[0], file.lines),
                    costs={"consistency": 1},
                )
    return []
