import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.patch import Patch, PatchFile, apply_file, parse_patch
from gagar_cli.core.patch_parser import MAX_PATCH_CHARS, MAX_PATCH_FILES, MAX_PATCH_LINES, MAX_PROBLEMS

SHARED = Path(__file__).resolve().parents[2].parent / "shared"

BASE = "one\ntwo\nthree\nfour\n"
CHANGE = """\
diff --git a/src/a.py b/src/a.py
index 1111111..2222222 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,4 +1,5 @@ class A:
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


def problems(text: str) -> list[str]:
    return [str(problem) for problem in parse_patch(text).problems]


def test_lines_carry_the_numbers_of_both_sides() -> None:
    file = only_file(CHANGE)
    assert [(line.marker, line.text, line.old_line, line.new_line) for line in file.hunks[0].lines] == [
        (" ", "one", 1, 1),
        ("-", "two", 2, None),
        ("+", "TWO", None, 2),
        ("+", "two and a half", None, 3),
        (" ", "three", 3, 4),
        (" ", "four", 4, 5),
    ]
    assert (file.path, file.change, file.new_mode, file.n_added, file.n_removed) == (
        "src/a.py",
        "modified",
        "100644",
        2,
        1,
    )
    assert file.hunks[0].section == "class A:"


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_blank_text_is_an_empty_patch(text: str) -> None:
    assert parse_patch(text) == Patch()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\n\n" + CHANGE, id="blank lines first"),
        pytest.param(
            "Here is my fix:\n--- and a line of dashes\n```diff\n" + CHANGE + "```\n", id="prose and fences"
        ),
        pytest.param(CHANGE[:-1], id="no final newline"),
        pytest.param("".join(CHANGE.splitlines(keepends=True)[2:]), id="plain headers"),
        pytest.param(CHANGE + "-- \n2.39.5\n", id="mail signature"),
        pytest.param(CHANGE.replace(" a/", " i/").replace(" b/", " w/"), id="mnemonic prefixes"),
    ],
)
def test_what_surrounds_a_diff_is_passed_over(text: str) -> None:
    file = only_file(text)
    assert file.path == "src/a.py"
    assert apply_file(file, BASE) == "one\nTWO\ntwo and a half\nthree\nfour\n"


def test_garbage_between_files_is_passed_over() -> None:
    patch = parse_patch(CHANGE + "And now the other one.\n" + CHANGE.replace("a.py", "b.py"))
    assert [file.path for file in patch.files] == ["src/a.py", "src/b.py"]
    assert [file.line for file in patch.files] == [1, 13]
    assert (patch.n_added, patch.n_removed, patch.problems) == (4, 2, ())


def test_carriage_returns_stay_in_content_and_leave_headers() -> None:
    file = only_file(CHANGE.replace("\n", "\r\n"))
    assert (file.path, file.new_mode, file.hunks[0].section) == ("src/a.py", "100644", "class A:")
    assert file.hunks[0].lines[0].text == "one\r"
    assert apply_file(file, BASE.replace("\n", "\r\n")).startswith("one\r\nTWO\r\n")


@pytest.mark.parametrize(
    ("header", "path"),
    [
        pytest.param('diff --git "a/\\303\\244.py" "b/\\303\\244.py"', "ä.py", id="octal"),
        pytest.param('diff --git "a/x\\ty\\"z" "b/x\\ty\\"z"', 'x\ty"z', id="escapes"),
        pytest.param('diff --git "a/\\377" "b/\\377"', "\udcff", id="not UTF-8"),
        pytest.param("diff --git a/my file b/my file", "my file", id="blanks"),
        pytest.param("diff --git a/a b/b b/a b/b", "a b/b", id="blanks that look like a prefix"),
        pytest.param("diff --git a/x//y b/x//y", "x/y", id="double slash"),
    ],
)
def test_names_are_read_from_the_first_line(header: str, path: str) -> None:
    file = only_file(f"{header}\nold mode 100644\nnew mode 100755\n")
    assert (file.old_path, file.new_path, file.change) == (path, path, "modified")
    assert (file.old_mode, file.new_mode) == ("100644", "100755")


@pytest.mark.parametrize(
    ("old", "new", "paths", "change"),
    [
        ("/dev/null", "b/x.py", (None, "x.py"), "added"),
        ("a/x.py", "/dev/null", ("x.py", None), "deleted"),
        ("a/x.py\t2024-01-02 03:04:05.000000000 +0100", "b/x.py\t2024-01-02", ("x.py", "x.py"), "modified"),
        ("a/x.py 2024-01-02 03:04:05", "b/x.py 2024-01-02 03:04:05", ("x.py", "x.py"), "modified"),
        ("a/x.py", "b/x.py.new", ("x.py", "x.py"), "modified"),
        ("a/x.py.orig", "b/x.py", ("x.py", "x.py"), "modified"),
        ("x.py", "x.py", ("x.py", "x.py"), "modified"),
    ],
)
def test_plain_headers_name_the_file(old: str, new: str, paths: tuple[str | None, ...], change: str) -> None:
    file = only_file(f"--- {old}\n+++ {new}\n@@ -1 +1 @@\n-a\n+b\n")
    assert (file.old_path, file.new_path) == paths
    assert file.change == change


def test_rename_with_a_change_names_both_paths() -> None:
    text = "diff --git a/x b/y\nsimilarity index 50%\nrename from x\nrename to y\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n"
    file = only_file(text)
    assert (file.old_path, file.new_path, file.change) == ("x", "y", "renamed")
    assert apply_file(file, "a\n") == "b\n"


def test_copy_names_its_source() -> None:
    file = only_file('diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to "y\\tz"\n')
    assert (file.old_path, file.new_path, file.change) == ("x", "y\tz", "copied")
    assert apply_file(file, "a\n") == "a\n"


def test_binary_deltas_are_listed_and_passed_over() -> None:
    delta = "GIT binary patch\nliteral 5\nMcmZQzWMT#Y01f~L\n\nliteral 0\nHcmV?d00001\n\n"
    first = f"diff --git a/i.png b/i.png\nnew file mode 100644\nindex 000..111\n{delta}"
    second = "diff --git a/j.png b/j.png\nindex 000..111 100644\nBinary files a/j.png and b/j.png differ\n"
    patch = parse_patch(first + second + CHANGE)
    assert patch.problems == ()
    assert [(file.path, file.is_binary, file.change) for file in patch.files] == [
        ("i.png", True, "added"),
        ("j.png", True, "modified"),
        ("src/a.py", False, "modified"),
    ]


def test_empty_files_can_be_added_and_deleted() -> None:
    added = only_file("diff --git a/x b/x\nnew file mode 100644\nindex 0000000..e69de29\n")
    deleted = only_file("diff --git a/x b/x\ndeleted file mode 100644\nindex e69de29..0000000\n")
    assert (added.old_path, added.path, apply_file(added, None)) == (None, "x", "")
    assert (deleted.new_path, deleted.path, apply_file(deleted, "")) == (None, "x", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            CHANGE.replace("-1,4 +1,5", "-1,4 +1,6"),
            ["patch:5: hunk 1 of src/a.py has 4 old and 5 new lines, its header says 4 and 6"],
            id="too few lines",
        ),
        pytest.param(
            CHANGE.replace("-1,4 +1,5", "-1,2 +1,2"),
            ["patch:5: hunk 1 of src/a.py has more lines than its header says (2 old, 2 new)"],
            id="too many lines",
        ),
        pytest.param(
            CHANGE.replace("@@ -1,4", "@@ -1,x"),
            ["patch:5: the header of hunk 1 of src/a.py cannot be read"],
            id="no number",
        ),
        pytest.param("@@ -1 +1 @@\n-a\n+b\n", ["patch:1: a hunk without the name of its file"], id="no file"),
        pytest.param(
            "diff --git a/x b/x\nindex 1..2 100644\n",
            ["patch:1: no change follows the header of x"],
            id="header only",
        ),
        pytest.param(
            "diff --git a b c\nnew file mode 100644\n",
            ["patch:1: the name of the file cannot be told"],
            id="no name",
        ),
        pytest.param(
            CHANGE.replace("+++ b/src/a.py", "+++ b/src/evil.py"),
            ["patch:4: the names in --- and +++ are not those of the lines above"],
            id="names differ",
        ),
        pytest.param(
            "<html>\x1b[2J",
            ["patch:1: no diff in <html>\\u{1b}[2J, expected a unified diff"],
            id="not a diff",
        ),
    ],
)
def test_what_cannot_be_read_is_a_problem(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x" * (MAX_PATCH_CHARS + 1), "patch:1: patch has 50,000,001 characters, more than 50,000,000"),
        ("\n" * (MAX_PATCH_LINES + 1), "patch:1: patch has 1,000,001 lines, more than 1,000,000"),
        (
            "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n" * (MAX_PATCH_FILES + 1),
            "patch:1: patch has more than 20,000 files",
        ),
    ],
    ids=["characters", "lines", "files"],
)
def test_a_patch_over_a_cap_has_no_files(text: str, message: str) -> None:
    patch = parse_patch(text)
    assert [str(problem) for problem in patch.problems] == [message]
    assert patch.files == ()


def test_only_the_first_problems_are_listed() -> None:
    assert len(problems("@@ -1 +1 @@\n" * 1000)) == MAX_PROBLEMS


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("+" * MAX_PATCH_CHARS, id="one line"),
        pytest.param("diff --git " + " " * (MAX_PATCH_CHARS - 20), id="header of blanks"),
        pytest.param('diff --git "' + "\\" * (MAX_PATCH_CHARS - 20), id="header of escapes"),
        pytest.param(
            "--- " + " " * 20_000_000 + "\n+++ " + "/" * 20_000_000 + "\n@@ -1 +1 @@" + "9" * 9_000_000,
            id="plain header",
        ),
        pytest.param(
            "diff --git a/" + " b/" * 5000 + "\n" + ("diff --git a/" + " b/" * 5000 + "\n") * 3000,
            id="many headers",
        ),
        pytest.param("@@ -1," + "9" * 40_000_000 + " +1 @@\n", id="long number"),
    ],
)
def test_hostile_sizes_are_read_in_linear_time(text: str) -> None:
    start = time.monotonic()
    parse_patch(text)
    assert time.monotonic() - start < 5


fragments = st.sampled_from(
    [*CHANGE.splitlines(), "\\", "@@", "---", "+++", "GIT", '"', "-1", "\r", "\0", "\ud800"]
)


@given(st.text() | st.lists(fragments).map("\n".join))
def test_no_text_raises(text: str) -> None:
    for file in parse_patch(text).files:
        assert isinstance(file.path, str)


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists() or not shutil.which("git"), reason="no shared data or no git")
def test_real_patches_have_the_files_and_counts_that_git_sees(tmp_path: Path) -> None:
    """Files whole, not attempt by attempt: `git apply --numstat` reads many patches in one run."""
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    with (SHARED / "data" / "swebench_groups.jsonl").open() as lines:
        attempts = [attempt for line in lines for attempt in json.loads(line)["attempts"]]
    patches = [attempt["model_patch"] for attempt in attempts if attempt["model_patch"]]
    parsed = [parse_patch(text) for text in patches]
    assert [patch.problems for patch in parsed if patch.problems] == []
    command = ["git", "apply", "--numstat", "-z", "-"]
    stdin = "".join(text if text.endswith("\n") else text + "\n" for text in patches).encode()
    stdout = subprocess.run(
        command, input=stdin, capture_output=True, cwd=tmp_path, env=environment, check=True
    ).stdout
    theirs = [
        entry.split("\t", 2) for entry in stdout.decode("utf-8", "surrogateescape").split("\0") if entry
    ]
    ours = [
        ["-", "-", file.path] if file.is_binary else [str(file.n_added), str(file.n_removed), file.path]
        for patch in parsed
        for file in patch.files
    ]
    assert ours == theirs
