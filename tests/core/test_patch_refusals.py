import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.patch import parse_patch, refuse_patch
from gagar_cli.core.patch_names import (
    read_name,
    shared_name,
    unquote_name,
    why_mode_is_refused,
    why_path_is_refused,
)


def refusals(text: str) -> list[str]:
    return [str(problem) for problem in refuse_patch(parse_patch(text))]


@pytest.mark.parametrize(
    "path",
    [
        "src/a.py",
        ".github/workflows/ci.yml",
        ".gitignore",
        ".gitattributes",
        "a..b",
        "...",
        "git",
        "x.git",
        "my file",
        "ä/\udcff",
        "git~",
        "bare.git/HEAD",
    ],
)
def test_plain_paths_are_allowed(path: str) -> None:
    assert why_path_is_refused(path) is None


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../x", "leaves the repository"),
        ("a/../../x", "leaves the repository"),
        ("a/..", "leaves the repository"),
        ("a\\..\\x", "leaves the repository"),
        ("a/.. /x", "leaves the repository"),
        ("/etc/passwd", "is absolute"),
        ("C:\\x", "is absolute"),
        ("\\\\host\\x", "is absolute"),
        (".git/hooks/pre-commit", "git directory"),
        (".GIT/config", "git directory"),
        ("git~1/config", "git directory"),
        (".git./config", "git directory"),
        (".git /config", "git directory"),
        (".git::$INDEX_ALLOCATION/config", "git directory"),
        (".g\u200cit/config", "git directory"),
        ("sub/.git/config", "git directory"),
        ("sub\\.git\\config", "git directory"),
        (".git", "git directory"),
        (".gitmodules", "declares submodules"),
        ("sub/.GitModules", "declares submodules"),
        ("a/./b", "empty component"),
        ("a/", "empty component"),
        ("", "empty or holds a NUL"),
        ("a\0b", "empty or holds a NUL"),
        ("a/" * 2048 + "b", "longer than 4096"),
        ("x" * 256, "more than 255 bytes"),
    ],
)
def test_paths_that_reach_out_are_refused(path: str, reason: str) -> None:
    assert reason in (why_path_is_refused(path) or "")


@pytest.mark.parametrize("mode", ["100644", "100755", "100664"])
def test_modes_of_plain_files_are_allowed(mode: str) -> None:
    assert why_mode_is_refused(mode) is None


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("120000", "symbolic link"),
        ("160000", "submodule"),
        ("104755", "not of a plain file"),
        ("102755", "not of a plain file"),
        ("020666", "not of a plain file"),
        ("060666", "not of a plain file"),
        ("40000", "not of a plain file"),
    ],
)
def test_modes_of_anything_else_are_refused(mode: str, reason: str) -> None:
    assert reason in (why_mode_is_refused(mode) or "")


def test_a_refusal_names_the_line_of_the_file_header() -> None:
    fine = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    hostile = "--- /dev/null\n+++ b/../x\x1b[2J\n@@ -0,0 +1 @@\n+b\n"
    assert refusals(fine) == []
    assert refusals(fine + hostile) == ["patch:6: path leaves the repository: ../x\\u{1b}[2J"]


def test_both_names_of_a_rename_are_checked() -> None:
    text = "diff --git a/x b/.git/x\nsimilarity index 100%\nrename from x\nrename to .git/x\n"
    assert refusals(text) == ["patch:1: path is in a git directory: .git/x"]


def test_a_new_symbolic_link_is_refused_and_a_deleted_one_is_not() -> None:
    new = "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc/shadow\n"
    changed = "diff --git a/x b/x\nindex 1..2 120000\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+/etc/shadow\n"
    deleted = "diff --git a/x b/x\ndeleted file mode 120000\nindex 1..0\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
    assert refusals(new) == refusals(changed) == ["patch:1: mode makes a symbolic link: x"]
    assert refusals(deleted) == []


def test_a_patch_without_readable_files_is_refused_for_its_problem() -> None:
    assert refusals("<html>") == ["patch:1: no diff in <html>, expected a unified diff"]
    assert refusals("") == []


def test_a_file_without_a_name_is_refused() -> None:
    assert refusals("diff --git a b c\nnew file mode 100644\n") == ["patch:1: path is empty or holds a NUL: "]


@given(st.text(st.characters()))
def test_names_of_any_kind_never_raise(text: str) -> None:
    for name in (read_name(text), shared_name(text) or "", unquote_name(text), text):
        why_path_is_refused(name)
        why_mode_is_refused(name)
