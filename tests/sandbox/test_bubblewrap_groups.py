import asyncio
from pathlib import Path

import pytest

from gagar_cli.sandbox.base import Checkout, SandboxLimits
from gagar_cli.sandbox.bubblewrap_groups import GroupMaker, find_group_maker, reap_groups
from gagar_cli.sandbox.owner import current_owner, is_orphaned_name, owned_name

LIMITS = SandboxLimits(memory_bytes=128 << 20, cpus=0.5, n_processes=32)
SPIN = """
import os, time
for _ in range(3):
    os.fork()
end = time.time() + 2
while time.time() < end:
    pass
print(os.times()[0], flush=True)
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
"""
TAKE = "import mmap\nkept = mmap.mmap(-1, 180 << 20)\nfor at in range(0, 180 << 20, 4096): kept[at] = 1\nprint('took')"


@pytest.fixture
def grouped(bubblewrap):
    if bubblewrap.groups is None:
        pytest.skip("no control group can be made here")
    return bubblewrap


def python(backend, tree, script, limits=LIMITS):
    async def run_once():
        sandbox = await backend.open(Checkout(tree), "", limits)
        return await sandbox.run(["python3", "-I", "-c", script], timeout_seconds=20)

    return asyncio.run(run_once())


def v1(root: Path) -> Path:
    """A process's directory on a machine with version 1, memory and processor time in one hierarchy."""
    for name in ("memory", "cpu,cpuacct"):
        (root / name / "own").mkdir(parents=True)
    proc = root / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text("4:memory:/own\n3:cpu,cpuacct:/own\n1:name=systemd:/\n")
    (proc / "mountinfo").write_text(
        f"30 1 0:1 / {root}/memory rw - cgroup cgroup rw,memory\n"
        f"31 1 0:2 / {root}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        f"32 1 0:3 / /somewhere rw - tmpfs tmpfs rw\n"
    )
    return proc


def v2(root: Path, handed_down: str) -> Path:
    """A process's directory on a machine with version 2, in a group beside which others may be made."""
    (root / "user" / "own").mkdir(parents=True)
    (root / "user" / "cgroup.subtree_control").write_text(handed_down)
    proc = root / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text("0::/user/own\n")
    (proc / "mountinfo").write_text(f"30 1 0:1 / {root} rw - cgroup2 cgroup rw\n")
    return proc


def test_memory_is_held_by_the_kernel_and_told(grouped, tree):
    result = python(grouped, tree, TAKE)
    assert result.out_of_memory
    assert result.stdout == ""


def test_the_rate_of_cpu_use_is_held(grouped, tree):
    if "cpu" not in grouped.groups.parents:
        pytest.skip("processor time cannot be limited here")
    seconds = [float(word) for word in python(grouped, tree, SPIN).stdout.split()]
    assert len(seconds) == 8
    assert sum(seconds) < 1.6


def test_nothing_of_a_group_is_left(grouped, tree):
    mine = owned_name(current_owner(), "*")
    python(grouped, tree, "print(1)")
    assert [list(parent.glob(mine)) for parent in grouped.groups.parents.values()] == [[], [], []]


def test_what_is_in_force_stands_in_the_description(grouped):
    assert f"control groups v{grouped.groups.version} (memory" in grouped.description


def test_hierarchies_of_version_1_are_found(tmp_path):
    maker = find_group_maker(v1(tmp_path))
    assert maker is not None
    assert maker.version == 1
    assert maker.parents == {"memory": tmp_path / "memory/own", "cpu": tmp_path / "cpu,cpuacct/own"}


def test_limits_are_written_as_version_1_wants_them(tmp_path):
    (tmp_path / "memory").mkdir()
    (tmp_path / "cpu").mkdir()
    GroupMaker(1, {"memory": tmp_path / "memory", "cpu": tmp_path / "cpu"}).make(LIMITS)
    (group,) = (tmp_path / "memory").iterdir()
    assert (group / "memory.limit_in_bytes").read_text() == str(128 << 20)
    assert (tmp_path / "cpu" / group.name / "cpu.cfs_quota_us").read_text() == "50000"


def test_version_2_is_used_beside_our_own_group_where_memory_is_handed_down(tmp_path):
    maker = find_group_maker(v2(tmp_path, "memory pids\n"))
    assert maker is not None
    assert (maker.version, set(maker.parents)) == (2, {"memory", "pids"})
    assert set(maker.parents.values()) == {tmp_path / "user"}
    assert not maker.has_all


def test_without_memory_there_are_no_groups(tmp_path):
    assert find_group_maker(v2(tmp_path, "pids\n")) is None
    assert find_group_maker(tmp_path / "nowhere") is None


def test_only_groups_of_the_dead_are_reaped(tmp_path):
    proc = v2(tmp_path, "memory\n")
    living = owned_name(current_owner(), "0a")
    dead = living.replace(f"-{current_owner().start}-", "-1-")
    for name in (living, dead, "gagar-of-someone"):
        (tmp_path / "user" / name).mkdir()
    assert reap_groups(proc) == [str(tmp_path / "user" / dead)]
    assert (tmp_path / "user" / living).exists()


@pytest.mark.parametrize("name", ["gagar", "gagar-1-2-3", "gagar-x-1-2-3-a", "other-x-1-2-3-a"])
def test_other_names_are_nobodys(name):
    assert not is_orphaned_name(name)
