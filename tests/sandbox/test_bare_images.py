"""Images without the programs that a checkout is made with: without git or tar they serve, without sh they are refused."""

import asyncio

import pytest

from gagar_cli.errors import CheckoutError, SandboxError
from gagar_cli.sandbox.base import Checkout, SandboxLimits

pytestmark = pytest.mark.docker

IMAGE = "gagar-test:latest"
LIMITS = SandboxLimits(memory_bytes=256 * 1024**2)
SETUP = r"""
mkdir -p /repo/pkg /repo/.git && cd /repo && printf 'one\ntwo\nthree' >pkg/a.py && printf 'x\r\n\377\n' >raw.txt
echo old >gone.txt; echo keep >pkg/run.sh; chmod 755 pkg/run.sh; ln -s pkg way; echo secret >.git/config
"""
REMOVE = 'rm -rf "$(command -v git)" /usr/lib/git-core "$(command -v tar)"'
PATCH = (
    r"""diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-old
diff --git a/new dir/it's $(x).txt b/new dir/it's $(x).txt
new file mode 100755
--- /dev/null
+++ b/new dir/it's $(x).txt
@@ -0,0 +1 @@
+new
diff --git a/pkg/a.py b/pkg/a.py
--- a/pkg/a.py
+++ b/pkg/a.py
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
\ No newline at end of file
diff --git a/pkg/run.sh b/bin/run.sh
similarity index 100%
rename from pkg/run.sh
rename to bin/run.sh
diff --git a/raw.txt b/raw.txt
--- a/raw.txt
+++ b/raw.txt
@@ -1,2 +1,3 @@
 x"""
    "\r\n \udcff\n+\udcfe\n"
)
LOOK = "ls -A . way/; cat pkg/a.py; echo; od -An -c raw.txt; stat -c '%A %s %n' bin/* new*/* pkg/*; cat new*/*; ls -A /tmp"


@pytest.fixture(scope="module")
def commit(docker_backend):
    """Makes an image out of what a script leaves of the test image; they go at the end."""
    client = docker_backend.client
    made = []

    def make(name: str, script: str) -> str:
        container = client.create_container(IMAGE, ["sh", "-c", script], network_disabled=True)["Id"]
        client.start(container)
        assert client.wait(container)["StatusCode"] == 0
        client.commit(container, name, "1")
        client.remove_container(container, force=True)
        made.append(f"{name}:1")
        return made[-1]

    yield make
    for name in made:
        client.remove_image(name, force=True)


@pytest.fixture(scope="module")
def bare_image(commit):
    return commit("gagar-test-bare", SETUP + REMOVE)


def run(backend, checkout, patch, *scripts):
    async def open_run_close():
        sandbox = await backend.open(checkout, patch, LIMITS)
        try:
            return [await sandbox.run(script, timeout_seconds=30) for script in scripts]
        finally:
            await sandbox.close()

    return asyncio.run(open_run_close())


def test_a_patch_is_applied_without_git_as_with_it(docker_backend, bare_image, commit):
    whole_image = commit("gagar-test-whole", SETUP)
    bare, again, left = run(
        docker_backend, Checkout(image=bare_image, workdir="/repo"), PATCH, LOOK, LOOK, "command -v git tar"
    )
    whole, _ = run(docker_backend, Checkout(image=whole_image, workdir="/repo"), PATCH, LOOK, "true")
    assert bare.stdout == again.stdout == whole.stdout
    assert (bare.exit_code, left.stdout) == (0, "")
    assert whole.stdout.splitlines() == [
        ".:", "bin", "new dir", "pkg", "raw.txt", "way", "", "way/:", "a.py", "one", "TWO", "three",
        "   x  \\r  \\n 377  \\n 376  \\n",
        "-rwxr-xr-x 5 bin/run.sh", "-rwxr-xr-x 4 new dir/it's $(x).txt", "-rw-r--r-- 13 pkg/a.py", "new",
    ]  # fmt: skip


def test_a_repository_that_is_supplied_is_patched_without_git(docker_backend, bare_image, tree):
    patch = "--- a/table.py\n+++ b/table.py\n@@ -2 +2 @@\n-    return sum(rows)\n+    return 0\n"
    (result,) = run(docker_backend, Checkout(tree, image=bare_image), patch, "cat table.py")
    assert result.stdout == "def total(rows):\n    return 0\n"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("-two\n", "-too\n", "does not apply .hunk 1"),
        ("pkg/a.py", "way/a.py", "way/a.py is beyond a symbolic link"),
        ("rename to bin", "rename to ../bin", "the patch is refused: .*leaves the repository"),
        ("new file mode 100755", "new file mode 120000", "the patch is refused"),
        ("b/pkg/a.py", "b/.git/config", "the patch is refused"),
    ],
)
def test_what_git_would_refuse_is_refused_without_it(docker_backend, bare_image, old, new, why):
    assert old in PATCH
    with pytest.raises(CheckoutError, match=why):
        run(docker_backend, Checkout(image=bare_image, workdir="/repo"), PATCH.replace(old, new), "true")


def test_without_a_patch_nothing_is_missed(docker_backend, bare_image):
    (result,) = run(docker_backend, Checkout(image=bare_image, workdir="/repo"), "", "cat gone.txt; ls .git")
    assert (result.stdout, result.exit_code) == ("old\n", 2)


def test_an_image_without_a_shell_is_refused_by_name(docker_backend, commit, tree):
    image = commit("gagar-test-no-shell", "rm -f /bin/sh /bin/bash /bin/dash /usr/bin/sh /usr/bin/dash")
    with pytest.raises(SandboxError, match=r"cannot run the checkout: .*/bin/sh.*no such file") as caught:
        run(docker_backend, Checkout(tree, image=image), "", "true")
    assert not isinstance(caught.value, CheckoutError)
