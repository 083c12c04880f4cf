import os
import shutil
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox import archiving
from gagar_cli.sandbox.archiving import Archiver
from gagar_cli.sandbox.clones import Clone
from gagar_cli.sandbox.tree import RepositoryStore

ATTRIBUTES = "tests/** export-ignore\nversion export-subst\ndata filter=x\n"
FILES = {".gitattributes": ATTRIBUTES, "version": "$Format:%H$\n", "data": "1\n", "tests/test_a.py": "a\n"}
IDENTITY = ("-c", "user.name=x", "-c", "user.email=x", "-c", "init.defaultBranch=main")
UNKNOWN = "f" * 40


def git(place: Path, *words: str) -> str:
    """Git on trees of our own, to make clones with."""
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    command = ["git", "-C", str(place), *IDENTITY, *words]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="session")
def public():
    """A directory that the sandboxes' user can pass through."""
    with tempfile.TemporaryDirectory(prefix="gagar-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def original(public):
    """A clone of two commits: its place, and the first commit; the second adds a file."""
    place = public / "original"
    place.mkdir()
    git(place, "init", "-q")
    for path, content in FILES.items():
        (place / path).parent.mkdir(exist_ok=True)
        (place / path).write_text(content)
    (place / "run.sh").write_text("true\n")
    (place / "run.sh").chmod(0o755)
    (place / "link").symlink_to("data")
    (place / "out").symlink_to("/etc/passwd")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "first")
    commit = git(place, "rev-parse", "HEAD")
    (place / "later").write_text("later\n")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "second")
    return place, commit


@pytest.fixture
def repos(public, request):
    directory = public / f"repos-{abs(hash(request.node.nodeid))}"
    directory.mkdir()
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def clone(original, repos):
    """Puts a copy of the original below the repositories."""

    def make(name: str) -> Path:
        place, _ = original
        target = repos / name
        source = place / ".git" if name.endswith(".git") else place
        shutil.copytree(source, target, symlinks=True)
        return target

    return make


@pytest.fixture(scope="session")
def archiver():
    return Archiver(None)


@pytest.fixture
def open_store(repos, public, bubblewrap, archiver):
    """The store of what is below the repositories by then."""
    with tempfile.TemporaryDirectory(dir=public) as run_dir:

        def make() -> RepositoryStore:
            made = RepositoryStore(repos, Path(run_dir))
            made.archiver = archiver
            return made

        yield make


@pytest.fixture
def store(open_store):
    return open_store()


@pytest.mark.parametrize(
    "name",
    ["o__r", "o/r", "r", "o__r.git", "o/r.git", "r.git", "o__r-1", "o__r-1@{commit}", "o__r@{commit}"],
)
def test_the_tree_is_the_tasks_commit_as_a_checkout_has_it(clone, open_store, original, name):
    """What is checked out is another commit, and `export-ignore` and `export-subst` speak of archives alone."""
    commit = original[1]
    (clone(name.format(commit=commit[:9])) / "data").write_text("changed since\n")
    store = open_store()
    tree = store.find("o__r-1", "o/r", commit)
    assert set(tree.files) == FILES.keys() | {"run.sh"}
    assert {path: tree.read_text(path) for path in FILES} == FILES
    assert os.access(tree.path / "run.sh", os.X_OK)
    assert (tree.path / "link").readlink() == Path("data")
    assert not os.path.lexists(tree.path / "out")
    assert store.notes == ()


def test_a_clone_of_the_tasks_name_is_taken_as_it_lies_there_where_it_lacks_the_commit(clone, open_store):
    clone("o__r-1")
    store = open_store()
    assert "later" in store.find("o__r-1", "o/r", UNKNOWN).files
    assert "does not hold the commit; the files that lie there are taken as they are (" in store.notes[0]


def test_a_commit_is_taken_out_once_however_many_ask(clone, store, original):
    clone("o__r")
    with ThreadPoolExecutor(8) as threads:
        trees = list(threads.map(lambda n: store.find(f"t{n}", "o/r", original[1]), range(8)))
    assert all(tree is trees[0] for tree in trees)
    assert store.find("t", "o/r", original[1][:10]).files == trees[0].files


def test_an_unknown_commit_is_said_once_with_what_mends_it(clone, store):
    clone("o__r.git")
    assert store.find("o__r-1", "o/r", UNKNOWN) is None
    assert store.find("o__r-2", "o/r", UNKNOWN) is None
    assert store.find("o__r-3", "o/r", "e" * 40) is None
    (note,) = store.notes
    assert note.startswith(
        "clone o__r.git: ffffffffffff, eeeeeeeeeeee cannot be taken out of it: it does not hold"
    )
    assert f"(`git fetch origin {UNKNOWN}` in it, or another clone)" in note


@pytest.mark.parametrize("name", ["main", "HEAD", "--output=/tmp/x", "v1.0", "1234567^{tree}"])
def test_only_digits_are_a_commit(clone, store, name):
    clone("o__r")
    assert store.find(None, "o/r", name) is None
    assert "not given by its digits" in store.notes[0]


def test_a_shallow_clone_says_so(clone, store):
    (clone("o__r") / ".git/shallow").write_text(UNKNOWN)
    assert store.find(None, "o/r", UNKNOWN) is None
    assert "git fetch --unshallow" in store.notes[0]


def test_without_a_sandbox_the_files_are_taken_where_they_are_of_that_commit(clone, store, original):
    place = clone("o__r")
    store.archiver = None
    assert store.find(None, "o/r", original[1]) is None
    assert "no sandbox is used" in store.notes[0]
    head = git(place, "rev-parse", "HEAD")
    tree = store.find(None, "o/r", head)
    assert "later" in tree.files
    assert not any(".git/" in path for path in tree.files)
    assert store.notes[0].endswith("; the files that lie there are taken as they are")


@pytest.mark.parametrize("form", ["packed", "detached", "link"])
def test_what_is_checked_out_is_read_without_git(clone, original, tmp_path, form):
    place = clone("o__r")
    head = git(place, "rev-parse", "HEAD")
    if form == "packed":
        git(place, "pack-refs", "--all")
    elif form == "detached":
        git(place, "checkout", "-q", "--detach")
    else:
        (tmp_path / "secret").write_text(head)
        (place / ".git/refs/heads/main").unlink()
        (place / ".git/refs/heads/main").symlink_to(tmp_path / "secret")
    assert Clone("o__r", place / ".git", place).head() == (None if form == "link" else head)


def make_link(place: Path, elsewhere: Path) -> None:
    shutil.rmtree(place / ".git")
    (place / ".git").symlink_to(elsewhere / ".git")


def make_file(place: Path, elsewhere: Path) -> None:
    shutil.rmtree(place / ".git")
    (place / ".git").write_text(f"gitdir: {elsewhere}/.git\n")


def make_alternates(place: Path, elsewhere: Path) -> None:
    shutil.rmtree(place / ".git/objects")
    (place / ".git/objects/info").mkdir(parents=True)
    (place / ".git/objects/pack").mkdir()
    (place / ".git/objects/info/alternates").write_text(f"{elsewhere}/.git/objects\n")


def make_linked_objects(place: Path, elsewhere: Path) -> None:
    shutil.rmtree(place / ".git/objects")
    (place / ".git/objects").symlink_to(elsewhere / ".git/objects")


@pytest.mark.parametrize(
    ("lead_away", "why"),
    [
        (make_link, "points elsewhere"),
        (make_file, "points elsewhere"),
        (make_alternates, "git repack -a -d"),
        (make_linked_objects, "cannot read the clone"),
    ],
)
def test_a_clone_that_leads_elsewhere_on_the_machine_is_not_followed(clone, store, original, lead_away, why):
    place, commit = original
    lead_away(clone("o__r"), place)
    assert store.find(None, "o/r", commit) is None
    assert why in store.notes[0]


def raw_tree(place: Path, name: str, kind: str = "100644 blob") -> str:
    """A commit with one entry of any name, which git itself would not make."""
    mode, _, what = kind.partition(" ")
    one = UNKNOWN if what == "commit" else git(place, "hash-object", "-w", "version")
    content = f"{mode} {name}\0".encode() + bytes.fromhex(one)
    (place / "raw").write_bytes(content)
    tree = git(place, "hash-object", "-w", "-t", "tree", "--literally", str(place / "raw"))
    return git(place, "commit-tree", "-m", "raw", tree)


@pytest.mark.parametrize("name", ["../ESCAPED", "..", "/tmp/ESCAPED", ".git"])
def test_a_tree_whose_names_leave_it_is_refused(clone, store, public, name):
    commit = raw_tree(clone("o__r"), name)
    assert store.find(None, "o/r", commit) is None
    assert store.notes[0].startswith(f"clone o__r: {commit[:12]} cannot be taken out of it: ")
    assert not list(public.rglob("*ESCAPED*"))
    assert not Path("/tmp/ESCAPED").exists()


def test_a_submodule_leaves_nothing(clone, store):
    commit = raw_tree(clone("o__r"), "sub", "160000 commit")
    assert store.find(None, "o/r", commit).files == ()


def test_a_repository_of_longer_hashes_is_read(repos, store):
    place = repos / "o__r"
    place.mkdir()
    git(place, "init", "-q", "--object-format=sha256")
    (place / "a").write_text("a")
    git(place, "add", "a")
    git(place, "commit", "-qm", "a")
    commit = git(place, "rev-parse", "HEAD")
    assert len(commit) == 64
    assert store.find(None, "o/r", commit).files == ("a",)


def test_a_tree_over_the_cap_is_not_kept(clone, store, original, monkeypatch):
    monkeypatch.setattr(archiving, "_MAX_ARCHIVE_BYTES", 4096)
    clone("o__r")
    assert store.find(None, "o/r", original[1]) is None
    assert "larger than" in store.notes[0]
    assert list((store._trees_dir).iterdir()) == []


def test_a_stopped_run_ends_what_git_does(clone, store, original, monkeypatch):
    monkeypatch.setattr(archiving, "_SCRIPT", "exec sleep 60")
    archiver = store.archiver = Archiver(None)
    clone("o__r")
    started = time.monotonic()
    threading.Timer(0.5, archiver.stop).start()
    assert store.find(None, "o/r", original[1]) is None
    assert time.monotonic() - started < 10
    assert "the run was stopped" in store.notes[0]


def test_what_was_opened_to_take_trees_out_is_closed_with_the_run(clone, store, original):
    archiver = store.archiver = Archiver(None)
    clone("o__r")
    n_before = len(list(Path("/proc/self/fd").iterdir()))
    assert store.find(None, "o/r", original[1]) is not None
    assert len(list(Path("/proc/self/fd").iterdir())) > n_before
    archiver.stop()
    assert len(list(Path("/proc/self/fd").iterdir())) == n_before


@pytest.mark.docker
def test_docker_takes_it_out_where_there_is_no_bubblewrap(clone, store, original, docker_backend):
    archiver = store.archiver = Archiver(docker_backend)
    archiver._backends = [docker_backend]
    clone("o__r")
    assert set(store.find(None, "o/r", original[1]).files) == FILES.keys() | {"run.sh"}
    assert store.find(None, "o/r", UNKNOWN) is None
    assert "does not hold the commit" in store.notes[0]


def test_a_machine_without_sandboxes_says_why(clone, store, original, monkeypatch):
    async def refuse(_: Path | None = None):
        raise SandboxError("no user namespaces")

    monkeypatch.setattr("gagar_cli.sandbox.bubblewrap.open_backend", refuse)
    store.archiver = Archiver(None)
    clone("o__r")
    assert store.find(None, "o/r", original[1]) is None
    assert store.notes[0].endswith(": bubblewrap: no user namespaces")
