import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.errors import CheckoutError
from gagar_cli.sandbox.edits import plan_edits

BASE = {"a.py": b"one\ntwo\n", "b.py": b"x\n"}
CHANGE = "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n"


def read(paths):
    return {path: BASE.get(path) for path in paths}


def words(patch: str) -> list[str]:
    edits = plan_edits(patch, read)
    return edits.content[: edits.n_words].decode().splitlines()


def test_content_follows_the_words_that_place_it():
    edits = plan_edits(CHANGE + "--- a/b.py\n+++ b/b.py\n@@ -1 +1 @@\n-x\n+\udcff\n", read)
    assert edits.content[: edits.n_words] == b"put a.py $((n_words + 1)) 8\nput b.py $((n_words + 9)) 2\n"
    assert edits.content[edits.n_words :] == b"one\nTWO\n\xff\n"


def test_names_are_quoted():
    patch = "--- /dev/null\n+++ b/d/$(x) 'y'\n@@ -0,0 +1 @@\n+n\n"
    assert words(patch) == ["""put 'd/$(x) '"'"'y'"'"'' $((n_words + 1)) 2"""]


def test_a_rename_takes_its_mode_along_and_a_deletion_is_one_word():
    header = "diff --git a/{0} b/{1}\n"
    rename = header.format("a.py", "c.py") + "similarity index 100%\nrename from a.py\nrename to c.py\n"
    gone = (
        header.format("b.py", "b.py")
        + "deleted file mode 100644\n--- a/b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    )
    assert words(rename + gone) == ["twin a.py c.py", "drop a.py", "put c.py $((n_words + 1)) 8", "drop b.py"]


def test_a_patch_that_returns_to_a_file_finds_what_it_left():
    again = CHANGE.replace("two", "TWO").replace("+TWO", "+three").replace("-two", "-TWO")
    edits = plan_edits(CHANGE + again, read)
    assert edits.content.endswith(b"one\nTWO\none\nthree\n")


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        (CHANGE.replace("-two", "-too"), "does not apply .hunk 1: the old lines differ"),
        (CHANGE.replace("a.py", "missing.py"), "no such file.*, and the sandbox has no git to try"),
        ("--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+n\n", "the file exists"),
        ("--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+n\n", "^the patch is refused: patch:1: "),
        ("--- /dev/null\n+++ b/.git/x\n@@ -0,0 +1 @@\n+n\n", "^the patch is refused: patch:1: "),
        ("no patch\n", "^the patch is refused: patch:1: "),
    ],
)
def test_a_patch_that_does_not_fit_is_refused(patch, why):
    with pytest.raises(CheckoutError, match=why):
        plan_edits(patch, read)


@given(st.text())
def test_no_patch_is_too_strange(text):
    with contextlib.suppress(CheckoutError):
        plan_edits(f"--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+{text}\n", read)
