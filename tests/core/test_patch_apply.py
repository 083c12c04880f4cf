import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.patch import PatchConflict, PatchFile, apply_file, parse_patch

BASE = "one\ntwo\nthree\nfour\n"
CHANGE = """\
--- a/src/a.py
+++ b/src/a.py
@@ -1,4 +1,5 @@
 one
-two
+TWO
+two and a half
 three
 four
"""


def only_file(text: str) -> PatchFile:
    patch = parse_patch(text)
    assert patch.problems == ()
    [file] = patch.files
    return file


def unified(base: str, new: str) -> str:
    """A diff by `difflib`, with the marker that git adds where the last newline is missing."""
    before, after = ([part + "\n" for part in text.split("\n")] for text in (base, new))
    for lines in (before, after):
        lines[-1] = lines[-1][:-1]
        lines[:] = [line for line in lines if line]
    diff = difflib.unified_diff(before, after, "a/x", "b/x", n=1)
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in diff
    )


texts = st.lists(st.sampled_from(["a", "b", "", "-- x", "++ y", "\f", "c\r", "\\ z", "@@ -1 +1 @@"])).map(
    "\n".join
)


@given(texts, texts)
def test_applying_a_diff_gives_the_new_text(base: str, new: str) -> None:
    diff = unified(base, new)
    patch = parse_patch(diff)
    assert patch.problems == ()
    if base == new:
        assert patch.files == ()
    else:
        assert apply_file(patch.files[0], base) == new
        for line in (line for hunk in patch.files[0].hunks for line in hunk.lines):
            assert line.old_line is None or base.split("\n")[line.old_line - 1] == line.text
            assert line.new_line is None or new.split("\n")[line.new_line - 1] == line.text


@pytest.mark.parametrize(
    ("base", "message", "hunk"),
    [
        pytest.param(
            "zero\n" + BASE, "hunk 1: the old lines differ at line 1", 1, id="an offset is not searched for"
        ),
        pytest.param(
            BASE.replace("three", "tree"), "hunk 1: the old lines differ at line 1", 1, id="context differs"
        ),
        pytest.param(BASE[:-1], "hunk 1: the old lines differ at line 1", 1, id="newline at the end differs"),
        pytest.param(None, "no such file", 0, id="missing"),
    ],
)
def test_what_does_not_fit_is_a_conflict(base: str | None, message: str, hunk: int) -> None:
    with pytest.raises(PatchConflict, match=message) as caught:
        apply_file(only_file(CHANGE), base)
    assert caught.value.hunk == hunk
    assert caught.value.message.startswith("src/a.py does not apply (")


@pytest.mark.parametrize(
    ("hunks", "message"),
    [
        ("@@ -1 +1 @@\n-a\n+A\n@@ -1 +1 @@\n-a\n+A\n", "hunk 2: the old lines differ at line 1"),
        ("@@ -1 +1 @@\n-a\n+A\n@@ -2 +3 @@\n-b\n+B\n", "hunk 2: it lands at line 2, not 3"),
        (
            "@@ -1 +1 @@\n-a\n+A\n\\ No newline at end of file\n",
            "hunk 1: the newline is missing in the middle",
        ),
        ("@@ -9,0 +10 @@\n+A\n", "hunk 1: the old lines differ at line 9"),
    ],
    ids=["twice the same lines", "wrong new line", "newline lost in the middle", "beyond the end"],
)
def test_hunks_that_contradict_each_other_are_a_conflict(hunks: str, message: str) -> None:
    with pytest.raises(PatchConflict, match=message):
        apply_file(only_file("--- a/x\n+++ b/x\n" + hunks), "a\nb\n")


def test_an_added_file_must_not_exist_and_a_deleted_one_must_end_empty() -> None:
    with pytest.raises(PatchConflict, match="the file exists"):
        apply_file(only_file("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n"), "b\n")
    deletion = only_file("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n")
    assert apply_file(deletion, "a\n") == ""
    with pytest.raises(PatchConflict, match="lines are left"):
        apply_file(deletion, "a\nb\n")


def test_a_plain_diff_may_make_a_file_under_its_own_name() -> None:
    assert apply_file(only_file("--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+a\n"), None) == "a\n"


def test_a_binary_file_cannot_be_applied() -> None:
    binary = only_file(
        "diff --git a/i.png b/i.png\nindex 000..111 100644\nBinary files a/i.png and b/i.png differ\n"
    )
    with pytest.raises(PatchConflict, match="it is binary"):
        apply_file(binary, "")
