"""Files that decide what tests are run and how, and whether a patch's changes there bear on the tests."""

from gagar_cli.core.patch import PatchFile

_NAMES = {
    "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "noxfile.py", "setup.cfg",
    "pyproject.toml", "sitecustomize.py", "usercustomize.py", "makefile", "package.json", ".mocharc.json", ".mocharc.js",
}  # fmt: skip
_STEMS = ("jest.config.", "karma.conf.", "vitest.config.", "playwright.config.")
_SHARED_NAMES = {"setup.cfg", "pyproject.toml", "makefile", "package.json"}
"""They hold much beside the tests' settings: dependencies, versions, other tools."""
_TEST_WORDS = ("test", "jest", "mocha", "tox", "nose", "addopts")


def is_runner_path(path: str) -> bool:
    """Whether a file decides what tests are run and how (not a test itself)."""
    name = path.rpartition("/")[2].lower()
    is_workflow = path.startswith(".github/workflows/") or "/.github/workflows/" in path
    return is_workflow or name in _NAMES or name.startswith(_STEMS) or name.endswith(".pth")


def changes_runner(file: PatchFile) -> bool:
    """Whether a file of a patch changes how tests run.

    A dependency added to `setup.cfg` does not: in the files that hold other settings too, a hunk must speak of tests.
    """
    paths = [path for path in (file.old_path, file.new_path) if path]
    if not any(map(is_runner_path, paths)):
        return False
    if all(path.rpartition("/")[2].lower() not in _SHARED_NAMES for path in paths):
        return True
    if file.change != "modified":
        return True
    texts = (line.text.lower() for hunk in file.hunks for line in hunk.lines)
    return any(word in text for text in texts for word in _TEST_WORDS)
