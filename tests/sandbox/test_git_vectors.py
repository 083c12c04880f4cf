"""Repositories that make git execute, and patches that leave the repository: nothing runs, nothing is written outside.

`.git` is dropped when a repository is laid out. Here it is put back, so that the second fence is tried: a patch is
applied without any repository.
"""

import asyncio
import os
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest

from gagar_cli.core.patch import parse_patch, refuse_patch
from gagar_cli.errors import SandboxError
from gagar_cli.sandbox import archiving
from gagar_cli.sandbox.archiving import Archiver
from gagar_cli.sandbox.base import Checkout, SandboxLimits, sandbox_user
from gagar_cli.sandbox.launcher import BASE
from gagar_cli.sandbox.tree import RepositoryStore

FILE = "def total(rows):\n    return sum(rows)\n"
PATCH = """\
diff --git a/table.py b/table.py
--- a/table.py
+++ b/table.py
@@ -1,2 +1,2 @@
 def total(rows):
-    return sum(rows)
+    return sum(row.value for row in rows)
diff --git a/added.py b/added.py
new file mode 100644
--- /dev/null
+++ b/added.py
@@ -0,0 +1 @@
+added = True
"""
RUN = "touch /tmp/executed"
HEAD = "ref: refs/heads/main\n"


def repository(place: str, config: str, **more: str) -> dict[str, str]:
    """A git directory of literal files, complete enough for git."""
    core = "[core]\nrepositoryformatversion = 0\nbare = false\n"
    files = {"HEAD": HEAD, "config": core + config, "objects/info/x": "", "refs/heads/x.lock": "", **more}
    return {f"{place}/{name}" if place else name: content for name, content in files.items()}


FSMONITOR = f'[core]\nfsmonitor = "{RUN}; false"\n'
FILTER = f'[filter "x"]\nclean = {RUN}; cat\nsmudge = {RUN}; cat\nrequired = true\n'
HOOK = f"#!/bin/sh\n{RUN}\n"
HOOKS = ("pre-commit", "post-checkout", "post-index-change", "reference-transaction", "applypatch-msg")

VECTORS = {
    "fsmonitor": repository(".git", FSMONITOR),
    "fsmonitor by an included file": {
        **repository(".git", "[include]\npath = ../included\n"),
        "included": FSMONITOR,
    },
    "git directory elsewhere in the tree": {
        ".git": "gitdir: elsewhere\n",
        **repository("elsewhere", FSMONITOR),
    },
    "hooks": repository(".git", "", **{f"hooks/{name}": HOOK for name in HOOKS}),
    "hooks in the tree": {
        **repository(".git", "[core]\nhooksPath = hooks\n"),
        **{f"hooks/{name}": HOOK for name in HOOKS},
    },
    "external diff and textconv": {
        **repository(
            ".git",
            f'[diff]\nexternal = {RUN}; true\n[diff "x"]\ncommand = {RUN}; true\ntextconv = {RUN}; cat\n',
        ),
        ".gitattributes": "* diff=x\n",
    },
    "filters": {**repository(".git", FILTER), ".gitattributes": "* filter=x\n"},
    "filters by the repository's own attributes": repository(
        ".git", FILTER, **{"info/attributes": "* filter=x\n"}
    ),
    "process filter": {
        **repository(".git", f'[filter "x"]\nprocess = {RUN}\nrequired = true\n'),
        ".gitattributes": "* filter=x\n",
    },
    "pager, editor and alias": repository(
        ".git", f'[core]\npager = {RUN}\neditor = {RUN}\n[alias]\napply = "!{RUN}"\n[pager]\napply = {RUN}\n'
    ),
    "bare repository at the root": {
        **repository("", "worktree = .\n" + FSMONITOR + FILTER),
        ".gitattributes": "* filter=x\n",
    },
    "bare repository below": repository("sub/x.git", "worktree = .\n" + FSMONITOR),
    "worktree elsewhere": repository(".git", f"[core]\nworktree = /etc\nfsmonitor = {RUN}\n"),
    "submodule": {
        **repository(".git", '[submodule "s"]\nupdate = "!touch /tmp/executed"\nurl = ./s\n'),
        ".gitmodules": f'[submodule "s"]\npath = s\nurl = --upload-pack={RUN}\nupdate = !{RUN}\n',
    },
    "configuration beside the tree": {".gitconfig": FSMONITOR + FILTER, ".config/git/config": FSMONITOR},
}
DORMANT = {"pager, editor and alias", "submodule", "configuration beside the tree"}
"""Those that execute nothing even when git is used in the ordinary way: a terminal, a user or a home is missing."""


def lay_out_raw(root: Path, files: dict[str, str]) -> Path:
    """The files as they are, `.git` among them, owned by the user of the sandboxes."""
    root.mkdir()
    for name, content in {"table.py": FILE, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o755 if "hooks/" in name else 0o644)
    user = sandbox_user()
    for path in [root, *root.rglob("*")]:
        if user.must_switch:
            os.chown(path, user.uid, user.gid)
    return root


@pytest.fixture
def run(backend, tree):
    """Runs a script over a raw tree with a patch."""

    def run_script(files: dict[str, str], script: str, *, patch: str = ""):
        raw = lay_out_raw(tree.parent / f"raw-{uuid.uuid4().hex}", files)

        async def run_once():
            sandbox = await backend.open(Checkout(raw), patch, SandboxLimits())
            try:
                return await sandbox.run(["sh", "-c", script], timeout_seconds=30)
            finally:
                await sandbox.close()

        return asyncio.run(run_once())

    return run_script


@pytest.mark.parametrize("vector", VECTORS)
def test_applying_a_patch_executes_nothing(run, vector):
    result = run(VECTORS[vector], "ls /tmp/executed; cat table.py added.py", patch=PATCH)
    assert result.stdout.endswith("added = True\n"), result.stderr
    assert "row.value" in result.stdout
    assert "executed" not in result.stdout


def test_the_vectors_are_live(bubblewrap, tree):
    """The control: git as people use it, on the same trees, in the sandbox."""
    script = (
        "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x\n"
        "[ -d sub/x.git ] && cd sub/x.git\n"
        "for one in status 'add -A' 'commit -qm x' 'diff HEAD~1' 'log -p' 'checkout -f HEAD'; do\n"
        "    echo more >>table.py; git $one; done >/dev/null 2>&1\n"
        "ls /tmp/executed"
    )

    async def run_once(raw: Path):
        sandbox = await bubblewrap.open(Checkout(raw), "", SandboxLimits())
        return await sandbox.run(["sh", "-c", script], timeout_seconds=30)

    fired = set()
    for vector, files in VECTORS.items():
        raw = lay_out_raw(tree.parent / f"live-{uuid.uuid4().hex}", files)
        if asyncio.run(run_once(raw)).exit_code == 0:
            fired.add(vector)
    assert fired == VECTORS.keys() - DORMANT


def make_clone(place: Path, files: dict[str, str]) -> str:
    """A clone with a commit, and a vector's files over it: its own configuration, hooks and attributes; the commit."""
    place.mkdir()
    (place / "table.py").write_text(FILE)
    (place / ".gitattributes").write_text("* filter=x diff=x\n")
    words = ("git", "-C", str(place), "-c", "user.name=x", "-c", "user.email=x")
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    for line in ("init -q", "add -A", "commit -qm x", "rev-parse HEAD"):
        done = subprocess.run(
            [*words, *line.split()], env=environment, check=True, capture_output=True, text=True
        )
    if ".git" in files:
        (place / ".git").rename(place / "elsewhere")
    if "HEAD" in files:
        shutil.copytree(place / ".git", place, dirs_exist_ok=True)
        shutil.rmtree(place / ".git")
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(content)
        (place / name).chmod(0o755 if "hooks/" in name else 0o644)
    return done.stdout.strip()


WATCHED = (
    archiving._SCRIPT.replace("exec git", "git")
    + "[ ! -e /tmp/executed ] || { echo executed >&2; exit 1; }\n"
)
"""The script that takes a commit out of a clone, and a look for what was executed meanwhile."""
THEIR_DIRECTORY = WATCHED.replace('GIT_DIR="$own"', f"GIT_DIR={BASE}")


@pytest.fixture
def take_out(bubblewrap, monkeypatch):
    """Takes the commit out of a clone with a vector; the tree and the notes."""

    def take(files: dict[str, str], script: str):
        monkeypatch.setattr(archiving, "_SCRIPT", script)
        with tempfile.TemporaryDirectory(prefix="gagar-test-") as name:
            Path(name).chmod(0o755)
            repos, run_dir = Path(name, "repos"), Path(name, "run")
            for directory in (repos, run_dir):
                directory.mkdir()
            commit = make_clone(repos / "o__r", files)
            store = RepositoryStore(repos, run_dir)
            store.archiver = Archiver(bubblewrap)
            return store.find("t", "o/r", commit), store.notes

    return take


@pytest.mark.parametrize("vector", VECTORS)
def test_taking_a_commit_out_of_a_clone_executes_nothing(take_out, vector):
    tree, notes = take_out(VECTORS[vector], WATCHED)
    if vector == "git directory elsewhere in the tree":
        assert "points elsewhere" in notes[0]
        assert tree is None
    else:
        assert (tree.files, notes) == ((".gitattributes", "table.py"), ())
    assert not Path("/tmp/executed").exists()


def test_a_clones_own_git_directory_would_execute(take_out):
    """The control: the same script with the clone's configuration, in the sandbox all the same."""
    _, notes = take_out(VECTORS["filters"], THEIR_DIRECTORY)
    assert notes[0].endswith("git failed: executed")
    assert not Path("/tmp/executed").exists()


def change(path: str, *, old: str | None = None, mode: str = "100644", content: str = "written") -> str:
    """A patch that adds a file, under the name as it stands in the headers."""
    return (
        f"diff --git a/{old or path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n"
        f"@@ -0,0 +1 @@\n+{content}\n"
    )


def move(how: str, target: str) -> str:
    return (
        f"diff --git a/table.py b/{target}\nsimilarity index 100%\n{how} from table.py\n{how} to {target}\n"
    )


LINK = "diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+{}\n"
NO_NEWLINE = "\\ No newline at end of file\n"
ESCAPES = {
    "climbs": change("../ESCAPED"),
    "climbs from within": change("docs/../../ESCAPED"),
    "climbs by a quoted name": change("../ESCAPED").replace("b/../ESCAPED", '"b/\\056\\056/ESCAPED"'),
    "absolute": change("/tmp/ESCAPED").replace("b//tmp", "/tmp"),
    "absolute after the prefix": change("/tmp/ESCAPED"),
    "rename that climbs": move("rename", "../ESCAPED"),
    "copy that climbs": move("copy", "../ESCAPED"),
    "git directory": change(".git/hooks/post-checkout"),
    "git directory in capitals": change(".GIT/config"),
    "git directory by its short name": change("git~1/config"),
    "git directory with a dot": change(".git./config"),
    "git directory as a stream": change(".git::$INDEX_ALLOCATION/config"),
    "git directory below": change("docs/.git/config"),
    "git file": change("docs/.git"),
    "rename into a git directory": move("rename", ".git/hooks/pre-commit"),
    "link to a file of the machine": LINK.format("/etc/shadow") + NO_NEWLINE,
    "link to the parent": LINK.format("..") + NO_NEWLINE,
    "link, then through it": LINK.format("/tmp") + NO_NEWLINE + change("link/ESCAPED"),
    "through a link that is there": change("inward/../../ESCAPED"),
    "submodule": "diff --git a/s b/s\nnew file mode 160000\nindex 0000000..1111111\n--- /dev/null\n+++ b/s\n"
    "@@ -0,0 +1 @@\n+Subproject commit 1111111111111111111111111111111111111111\n",
    "submodules declared": change(".gitmodules"),
    "set-user-id": change("ESCAPED", mode="104755"),
    "device": change("ESCAPED", mode="060600"),
}
READ_AS_A_PLAIN_NAME = {"absolute"}
"""Git and the parser take off the first component: what is left is a file of the repository."""
APPLIED_BY_GIT = READ_AS_A_PLAIN_NAME | {
    "link to a file of the machine",
    "link to the parent",
    "submodule",
    "submodules declared",
    "set-user-id",
    "device",
}
"""Refused before a sandbox sees them, and held by it none the less."""


@pytest.mark.parametrize("escape", sorted(ESCAPES.keys() - READ_AS_A_PLAIN_NAME))
def test_a_patch_that_leaves_the_repository_never_reaches_a_sandbox(escape):
    assert refuse_patch(parse_patch(ESCAPES[escape]))


@pytest.mark.parametrize("escape", ESCAPES)
def test_a_patch_writes_nothing_outside(run, tree, escape):
    script = (
        "find / -xdev -name '*ESCAPED*' 2>/dev/null; find . -perm /6000 -o -name .git -o -type b; ls -R /tmp"
    )
    if escape in APPLIED_BY_GIT:
        result = run({"docs/notes.txt": "notes\n"}, script, patch=ESCAPES[escape])
        assert result.stdout.replace("./", "").strip() == "/tmp:", escape
    else:
        with pytest.raises(SandboxError, match="the checkout cannot be made"):
            run({"docs/notes.txt": "notes\n"}, script, patch=ESCAPES[escape])
    beside = [tree.parent, *tree.parents[:3], Path("/tmp"), Path("/")]
    assert not [place for place in beside if list(place.glob("*ESCAPED*"))]
    assert not list(tree.parent.rglob("*ESCAPED*"))
