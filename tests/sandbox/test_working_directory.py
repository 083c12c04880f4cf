"""Where a command starts: the checkout, or a plain directory of it; the same of every backend."""

import asyncio

import pytest

from gagar_cli.errors import CheckoutError

ADDED = "diff --git a/{0} b/{0}\nnew file mode {1}\n--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+{2}\n"
LINK = ADDED.format("way", "120000", "/etc") + "\\ No newline at end of file\n"
NOTES_GONE = (
    "diff --git a/docs/notes.txt b/docs/notes.txt\ndeleted file mode 100644\n--- a/docs/notes.txt\n+++ /dev/null\n"
    "@@ -1 +0,0 @@\n-notes\n"
)


def start_in(held, cwd: str, command=("pwd", "-P")):
    return asyncio.run(held.sandbox.run(command, timeout_seconds=20, cwd=cwd))


@pytest.mark.parametrize(
    ("cwd", "place"), [(".", "/checkout"), ("docs", "/checkout/docs"), ("./docs//.", "/checkout/docs")]
)
def test_a_command_starts_in_a_directory_of_the_checkout(held, cwd, place):
    result = start_in(held, cwd)
    assert (result.exit_code, result.stdout) == (0, f"{place}\n")


def test_a_script_is_run_by_the_shell_there(held):
    assert start_in(held, "docs", "cat *.txt | tr n N").stdout == "Notes\n"


def test_directories_that_the_patch_makes_can_be_started_in(hold):
    held = hold(ADDED.format("new dir/*/a.txt", "100644", "x"))
    assert start_in(held, "new dir/*").stdout == "/checkout/new dir/*\n"


@pytest.mark.parametrize("cwd", ["", "/", "/etc", "..", "../checkout", "docs/..", "docs/../../etc", "docs\0"])
def test_a_path_that_leaves_the_checkout_is_refused(held, cwd):
    with pytest.raises(CheckoutError, match=r"^cwd is '.*', expected a relative path that stays"):
        start_in(held, cwd)


@pytest.mark.parametrize(
    "cwd", ["table.py", "missing", "docs/missing", "docs/notes.txt/x", "~", "$HOME", "-"]
)
def test_what_is_no_directory_is_refused(held, cwd):
    with pytest.raises(CheckoutError, match="is not a plain directory to start in"):
        start_in(held, cwd)


@pytest.mark.parametrize("cwd", ["way", "way/.", "way/python3"])
def test_a_link_is_not_followed_wherever_it_leads(hold, cwd):
    with pytest.raises(CheckoutError, match="way is not a plain directory to start in"):
        start_in(hold(LINK), cwd)
    with pytest.raises(CheckoutError, match="way is not a plain directory to start in"):
        start_in(hold(LINK.replace("/etc", "docs")), cwd)


def test_a_directory_that_the_patch_removes_is_refused(hold):
    with pytest.raises(CheckoutError, match="docs is not a plain directory to start in"):
        start_in(hold(NOTES_GONE), "docs")
