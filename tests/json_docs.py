"""The tables of docs/json.md as paths, to hold against what is printed.

A section is a heading with its tables. A row's first cell names paths; where its text begins with a link to a section that
has rows, the paths are those of that section below the row's own, so a shared part is written once.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "json.md"
Parts = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One path of one table."""

    section: str
    path: str
    """As it is written; empty where the linked section's paths stand here themselves."""
    text: str

    @property
    def parts(self) -> Parts:
        """`a.b[].{c}` as ("a", "b", "[]", "{c}")."""
        return tuple(self.path.replace("[]", ".[]").split(".")) if self.path else ()

    @property
    def block(self) -> str | None:
        """The section whose paths stand below this one."""
        found = re.match(r"\[[^\]]+\]\(#([^)]+)\)", self.text)
        return found[1] if found else None

    @property
    def is_conditional(self) -> bool:
        """Whether the text says when the key is there at all."""
        return "only with" in self.text or "only where" in self.text


def slug(heading: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def read_rows(text: str) -> dict[str, list[Row]]:
    """Rows by the anchor of their section."""
    sections: dict[str, list[Row]] = {}
    section = ""
    for line in text.splitlines():
        if heading := re.match(r"#+ (.+)", line):
            section = slug(heading[1])
            assert section not in sections, f"two sections are {section}"
            sections[section] = []
        elif line.startswith("| `"):
            _, keys, told, _ = re.split(r"(?<!\\)\|", line)
            paths = re.findall(r"`([^`]+)`", keys)
            if "…`" not in keys and " … " in keys:
                paths = [""]
            sections[section] += [Row(section, path, told.strip()) for path in paths]
    return sections


SECTIONS = read_rows(PAGE.read_text(encoding="utf-8"))


def expand(section: str, before: Parts = ()) -> Iterator[tuple[Parts, Row]]:
    """Every path of a section, with the row that describes it."""
    for row in SECTIONS[section]:
        if row.block is not None and SECTIONS[row.block]:
            yield from expand(row.block, before + row.parts)
        else:
            yield before + row.parts, row


def leaves(value: object, before: Parts = ()) -> Iterator[tuple[Parts, object]]:
    """Every value that holds no others, with its path; an empty object or list is one."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from leaves(each, (*before, name))
    elif isinstance(value, list) and value:
        for each in value:
            yield from leaves(each, (*before, "[]"))
    else:
        yield before, value


def find(found: Parts, value: object, documented: Sequence[tuple[Parts, Row]]) -> set[Row]:
    """The rows that describe a value: those with the most names in common with its path."""
    is_empty = value in ({}, [])
    fitting = [
        (sum(name == part for name, part in zip(found, parts, strict=False)), row)
        for parts, row in documented
        if fits(found, parts, as_prefix=is_empty)
    ]
    most = max((n_equal for n_equal, _ in fitting), default=0)
    return {row for n_equal, row in fitting if n_equal == most}


def fits(found: Parts, parts: Parts, *, as_prefix: bool) -> bool:
    """Whether a path that is there is a documented one, or, for what is empty, leads to one."""
    if "*" in parts and len(found) >= parts.index("*"):
        end = parts.index("*")
        return fits(found[:end], parts[:end], as_prefix=False)
    is_long_enough = len(found) <= len(parts) if as_prefix else len(found) == len(parts)
    return is_long_enough and all(
        name == part or (part.startswith("{") and name != "[]")
        for name, part in zip(found, parts, strict=False)
    )
