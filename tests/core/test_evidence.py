from collections.abc import Sequence

import pytest

from gagar_cli.core.evidence import MAX_QUOTE_CHARS, Coordinate, NumberedLine, check_finding, parse_coordinate
from gagar_cli.core.ranking import Finding


def finding(
    at: str, anchor: str = "return sorted(rows)", kind="patch", compared_with: str | None = None
) -> Finding:
    return Finding(kind, at, anchor, "why", ("minimality",), compared_with)


def shows(*lines: str):
    def lookup(place: Coordinate) -> Sequence[str] | None:
        return lines if place.path in (None, "a.py") else None

    return lookup


@pytest.mark.parametrize(
    ("at", "kind", "expected"),
    [
        ("c03:src/a.py:17", "patch", Coordinate("patch", "c03", path="src/a.py", line=17)),
        ("c03:src/a.py:-12", "patch", Coordinate("patch", "c03", path="src/a.py", line=-12)),
        ("c03:logo.png:0", "patch", Coordinate("patch", "c03", path="logo.png", line=0)),
        ("c03:odd:name.py:1", "patch", Coordinate("patch", "c03", path="odd:name.py", line=1)),
        ("base:src/a.py:17", "repo", Coordinate("repo", "base", path="src/a.py", line=17)),
        ("f01:turn:4", "turn", Coordinate("turn", "f01", number=4)),
        ("c01:turn:4:2", "turn", Coordinate("turn", "c01", number=4, line=2)),
        ("c01:test_output:9", "test_output", Coordinate("test_output", "c01", line=9)),
        ("c01:exec:1:5", "exec", Coordinate("exec", "c01", number=1, line=5)),
    ],
)
def test_a_coordinate_is_read_by_its_kind(at, kind, expected):
    assert parse_coordinate(at, kind) == expected


@pytest.mark.parametrize(
    ("at", "kind"),
    [
        ("a.py:3", "patch"),
        ("c01:a.py", "patch"),
        ("c01:turn:x", "turn"),
        ("c01:a.py:3", "turn"),
    ],
)
def test_a_malformed_coordinate_is_refused(at, kind):
    with pytest.raises(ValueError, match=r"c01|start"):
        parse_coordinate(at, kind)


def test_a_quote_that_stands_there_is_taken_from_there():
    checked = check_finding(finding("c01:a.py:3"), "c01", shows("    return  sorted(rows)  # stable"))
    assert checked.quote == "    return  sorted(rows)  # stable"


@pytest.mark.parametrize("anchor", ["c01:a.py:3│+return sorted(rows)", "+ return sorted(rows)"])
def test_gutter_and_diff_marker_may_be_quoted(anchor):
    assert check_finding(finding("c01:a.py:3", anchor), "c01", shows("return sorted(rows)")).quote


def test_an_anchor_may_span_lines():
    lookup = shows("def total(rows):", "    return sum(rows)")
    assert check_finding(finding("c01:a.py:3", "def total(rows):\n return sum(rows)"), "c01", lookup).quote


def test_text_quoted_as_shown_matches_hidden_characters():
    lookup = shows("name = 'a\u202eb' # odd")
    assert check_finding(finding("c01:a.py:3", "name = 'a\\u{202e}b'"), "c01", lookup).quote


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (finding("c01:a.py:3", "return None # nowhere"), "not within 3 lines"),
        (finding("c01:a.py:3", "return"), "shorter than 8"),
        (finding("c01:b.py:3"), "does not exist"),
        (finding("c02:a.py:3"), "cites c02"),
        (finding("base:a.py:3"), "cites base"),
        (finding("c01:a.py:3", compared_with="c01:a.py:1"), "compared_with"),
        (finding("c01:a.py:3", compared_with="c02:b.py:1"), "compared_with"),
    ],
)
def test_a_finding_that_proves_nothing_is_refused(case, message):
    with pytest.raises(ValueError, match=message):
        check_finding(case, "c01", shows("return sorted(rows)"))


def test_a_repo_finding_may_cite_the_base_and_a_sibling_may_be_compared():
    checked = check_finding(
        finding("base:a.py:3", kind="repo", compared_with="c02:a.py:3"), "c01", shows("return sorted(rows)")
    )
    assert checked.quote == "return sorted(rows)"


def numbered(first: int, *lines: str):
    """A lookup that shows these lines, numbered from the first."""
    shown = [NumberedLine.of(first + n, line) for n, line in enumerate(lines)]
    return lambda place: shown


def test_a_finding_is_kept_with_the_line_where_its_anchor_stands():
    lookup = numbered(1, "def total(rows):", "    rows = list(rows)", "    return sorted(rows)", "")
    assert check_finding(finding("c01:a.py:1"), "c01", lookup).at == "c01:a.py:3"
    assert check_finding(finding("c01:turn:4", kind="turn"), "c01", lookup).at == "c01:turn:4:3"
    assert check_finding(finding("c01:turn:4:2", kind="turn"), "c01", lookup).at == "c01:turn:4:3"


def test_of_several_places_the_nearest_to_the_cited_line_is_meant():
    lookup = numbered(4, "return sorted(rows)", "", "", "return sorted(rows)  # again", "")
    checked = check_finding(finding("c01:a.py:6"), "c01", lookup)
    assert (checked.at, checked.quote) == ("c01:a.py:7", "return sorted(rows)  # again")


def test_an_anchor_over_lines_is_kept_with_those_lines_only():
    lookup = numbered(1, "import os", "def total(rows):", "    return sum(rows)", "", "def label(row):")
    checked = check_finding(finding("c01:a.py:5", "def total(rows):\n return sum(rows)"), "c01", lookup)
    assert (checked.at, checked.quote) == ("c01:a.py:2", "def total(rows):\n    return sum(rows)")


def test_of_a_huge_line_the_part_that_was_quoted_is_kept():
    lookup = numbered(1, "x" * 500_000 + " return  sorted(rows) " + "y" * 500_000)
    quote = check_finding(finding("c01:a.py:1"), "c01", lookup).quote
    assert quote.startswith("return  sorted(rows) yyy")
    assert len(quote) == MAX_QUOTE_CHARS


@pytest.mark.parametrize(
    "anchor",
    [
        "return sorted(rows)… [90 more characters: start=3, column=501]",
        "[20 characters before] …return sorted(rows)",
        "c01:a.py:3│[20 characters before] …return sorted(rows)… [9 more characters]",
    ],
)
def test_the_marks_of_a_cut_line_are_no_part_of_a_quote(anchor):
    assert check_finding(finding("c01:a.py:3", anchor), "c01", shows("return sorted(rows)" * 50)).quote


@pytest.mark.parametrize(
    ("at", "kind", "hint"),
    [
        ("c01:turn:4", "patch", "c01:turn:4 does not exist as a patch coordinate: its kind is turn"),
        ("c01:exec:1:5", "repo", "c01:exec:1:5 does not exist as a repo coordinate: its kind is exec"),
        ("c01:b.py:9", "patch", "a line of the patched file outside of it is cited with kind repo"),
    ],
)
def test_a_coordinate_of_another_kind_is_told(at, kind, hint):
    with pytest.raises(ValueError, match=hint):
        check_finding(finding(at, kind=kind), "c01", lambda place: None)


@pytest.mark.parametrize(
    "case",
    [
        finding("c01:a.py:3", "<|im_start|>" * 1000),
        finding("<|im_start|>" * 1000),
        finding("c01:" + "[INST]" * 1000 + ":3"),
        finding("c01:a.py:3", compared_with="<|im_start|>" * 1000),
    ],
)
def test_what_is_told_of_a_bad_finding_is_short_and_harmless(case):
    with pytest.raises(ValueError, match=r"c01|start|anchor|exist") as error:
        check_finding(case, "c01", shows("return sorted(rows)"))
    assert len(str(error.value)) < 500
    assert not [token for token in ("<|im_start|>", "[INST]") if token in str(error.value)]
