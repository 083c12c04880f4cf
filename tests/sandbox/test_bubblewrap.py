import asyncio
import os
import resource
from pathlib import Path

import pytest

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox.base import Checkout, SandboxLimits, sandbox_user
from gagar_cli.sandbox.bubblewrap import BubblewrapBackend
from gagar_cli.sandbox.bubblewrap_args import HandedIn, sandbox_arguments, shell_limits

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root switches to another user")


def run(backend, checkout, *command, patch=""):
    async def run_once():
        sandbox = await backend.open(checkout, patch, SandboxLimits())
        return await sandbox.run(command, timeout_seconds=20)

    return asyncio.run(run_once())


def test_a_tree_is_copied_where_no_overlay_can_be_had(bubblewrap, tree):
    copying = BubblewrapBackend(bubblewrap.program, has_overlay=False)
    patch = "--- a/docs/notes.txt\n+++ b/docs/notes.txt\n@@ -1 +1 @@\n-notes\n+more\n"
    result = run(copying, Checkout(tree), "sh", "-c", "cat docs/notes.txt; echo x >docs/new", patch=patch)
    assert (result.exit_code, result.stdout) == (0, "more\n")


@is_root
def test_a_tree_of_another_user_is_copied(bubblewrap, tree, tmp_path_factory):
    own = tree.parent / "of-root"
    own.mkdir(mode=0o755)
    (own / "a.txt").write_text("a\n")
    result = run(bubblewrap, Checkout(own), "sh", "-c", "echo b >>a.txt; cat a.txt; ls -d /base")
    assert result.stdout == "a\nb\n/base\n"


@is_root
def test_a_tree_behind_a_closed_directory_is_refused_with_its_name(bubblewrap, tmp_path):
    tmp_path.chmod(0o700)
    with pytest.raises(SandboxError, match="cannot pass through"):
        run(bubblewrap, Checkout(tmp_path), "true")


def test_a_repository_inside_an_image_is_refused(bubblewrap):
    with pytest.raises(SandboxError, match="needs docker"):
        run(bubblewrap, Checkout(image="x", workdir="/testbed"), "true")


def test_paths_of_the_machine_are_not_on_the_command_line(bubblewrap, tree):
    result = run(bubblewrap, Checkout(tree), "sh", "-c", "cat /proc/1/cmdline")
    assert "bwrap" in result.stdout
    assert str(tree) not in result.stdout


def test_no_descriptor_of_the_owner_is_readable(bubblewrap, tree):
    result = run(bubblewrap, Checkout(tree), "sh", "-c", "for fd in /proc/self/fd/*; do readlink $fd; done")
    left = [line for line in result.stdout.split() if not line.startswith(("/dev/null", "pipe:", "/proc/"))]
    assert all(line.endswith("/bwrap") for line in left)


def test_no_descriptor_is_left_behind(bubblewrap, tree):
    run(bubblewrap, Checkout(tree), "true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        run(bubblewrap, Checkout(tree), "true")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_flood_of_small_files_is_held(bubblewrap, tree):
    script = "import os\nfor n in range(400_000):\n    open(f'{n}', 'w').close()\nprint('all made')"
    result = run(bubblewrap, Checkout(tree), "python3", "-I", "-c", script)
    assert result.out_of_memory
    assert "all made" not in result.stdout


def test_buffers_of_sockets_are_held(bubblewrap, tree):
    """They belong to no process: the number of open files bounds them."""
    script = (
        "import socket\n"
        "pairs, n = [], 0\n"
        "try:\n"
        "    while n < 5000:\n"
        "        pairs.append(socket.socketpair()); n += 1\n"
        "except OSError as error:\n"
        "    print(n)\n"
    )
    result = run(bubblewrap, Checkout(tree), "python3", "-I", "-c", script)
    assert int(result.stdout) < 128


def test_the_read_only_root_comes_after_the_last_mount(tree):
    with HandedIn() as files:
        arguments = sandbox_arguments(Checkout(tree), SandboxLimits(), use_overlay=True, files=files)
    mounts = {
        "--bind",
        "--ro-bind",
        "--ro-bind-try",
        "--ro-bind-data",
        "--tmpfs",
        "--proc",
        "--dev",
        "--tmp-overlay",
    }
    last_mount = max(place for place, word in enumerate(arguments) if word in mounts)
    assert arguments.index("--remount-ro") > last_mount
    assert {"--unshare-all", "--disable-userns", "--die-with-parent", "--new-session", "--clearenv"} < set(
        arguments
    )


def test_handed_in_files_are_closed():
    with HandedIn() as files:
        descriptor = files.add(b"content")
        assert os.read(descriptor, 10) == b"content"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.read(descriptor, 1)


def test_shell_limits_are_words_for_ulimit():
    limits = SandboxLimits(memory_bytes=1 << 30, cpus=0.5, n_processes=7, scratch_bytes=1 << 20)
    words = dict(word.split("=") for word in shell_limits(limits, 60).split())
    assert words == {"c": "0", "n": "256", "f": "2048", "v": "2097152", "t": "32", "u": "7"}


def test_the_sandbox_user_is_never_root():
    assert sandbox_user().uid != 0


def test_a_process_short_of_descriptors_gets_an_error_and_loses_none(bubblewrap, tree):
    def n_open() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def run_short() -> set[str]:
        sandbox = await bubblewrap.open(Checkout(tree), "", SandboxLimits())
        await sandbox.run("true", timeout_seconds=20)
        before, limits = n_open(), resource.getrlimit(resource.RLIMIT_NOFILE)
        outcomes = set()
        try:
            for n_more in range(0, 24, 2):
                resource.setrlimit(resource.RLIMIT_NOFILE, (before + n_more, limits[1]))
                try:
                    outcomes.add((await sandbox.run("echo fine", timeout_seconds=20)).stdout)
                except SandboxError as error:
                    outcomes.add(error.message.partition(": ")[0])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert n_open() == before
        return outcomes

    found = asyncio.run(run_short())
    assert found <= {"no control group can be made", "bubblewrap cannot be started", "fine\n"}
    assert found >= {"bubblewrap cannot be started", "fine\n"}
