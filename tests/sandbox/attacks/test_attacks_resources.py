"""Attacks on memory, disk, processes and processors, against every backend.

Each asks for far more than the bound below, so that a backend which does not hold only fails the test. Where a
backend is said to hold in part, its bound is the wider one of what is true instead.
"""

import os
import shutil
from pathlib import Path

from gagar_cli.sandbox.base import SandboxLimits
from gagar_cli.sandbox.launcher import MAX_FILE_BYTES, MAX_INODES
from gagar_cli.sandbox.watchdog import UNSEEN_BYTES

MEBIBYTE = 1 << 20
LIMITS = SandboxLimits(memory_bytes=512 * MEBIBYTE, scratch_bytes=64 * MEBIBYTE, output_bytes=20_000)
NOISE_BYTES = 1024 * MEBIBYTE
"""What the rest of the machine may take meanwhile, other tests among it."""
OVERSHOOT_BYTES = 400 * MEBIBYTE
"""What can be touched between two looks of a watchdog on a busy machine."""
OVERHEAD_BYTES = 100 * MEBIBYTE
"""Interpreters and what they start with."""
WRAPPERS = 6
"""Processes of bubblewrap, of a container's start and of the launcher that carry the mark too."""


def test_5_a_fork_bomb_is_held(attack):
    _, host = attack("fork_bomb", limits=LIMITS)
    assert 20 < host.peak_processes <= LIMITS.n_processes + WRAPPERS
    assert host.all_gone_within(1)


def test_6_memory_of_one_process_is_held(attack, is_open):
    result, host = attack("take_memory", "1", "3072", limits=LIMITS)
    overshoot = OVERSHOOT_BYTES if is_open("6") else 0
    assert host.peak_resident_bytes < LIMITS.memory_bytes + OVERHEAD_BYTES + overshoot
    assert result.out_of_memory or result.exit_code not in (0, None)
    assert "all taken" not in result.stdout


def test_7_memory_of_many_processes_is_held(attack, is_open):
    result, host = attack("take_memory", "5", "832", limits=LIMITS)
    overshoot = OVERSHOOT_BYTES if is_open("7") else 0
    assert host.memory_dip_bytes < LIMITS.memory_bytes + NOISE_BYTES + overshoot
    assert result.out_of_memory
    assert host.all_gone_within(1)


def test_7b_memory_of_anonymous_files_is_held(attack):
    _, host = attack("take_memfd", limits=LIMITS)
    assert host.memory_dip_bytes < LIMITS.memory_bytes + NOISE_BYTES


def test_7c_memory_of_socket_buffers_is_held(attack, is_open):
    _, host = attack("take_socket_buffers", limits=LIMITS)
    overshoot = UNSEEN_BYTES + OVERSHOOT_BYTES if is_open("7c") else 0
    assert host.memory_dip_bytes < LIMITS.memory_bytes + NOISE_BYTES + overshoot


def test_7d_memory_of_pipes_is_held(attack):
    _, host = attack("take_pipes", limits=LIMITS)
    assert host.memory_dip_bytes < LIMITS.memory_bytes + NOISE_BYTES


def test_8_the_disk_is_not_filled(attack):
    before = {place: shutil.disk_usage(place).free for place in ("/", "/tmp", "/var/tmp", "/dev/shm")}
    _, host = attack("fill_disk", limits=LIMITS)
    taken = {place: free - shutil.disk_usage(place).free for place, free in before.items()}
    assert max(taken.values()) < 50 * MEBIBYTE
    assert host.memory_dip_bytes < LIMITS.memory_bytes + NOISE_BYTES


def test_9_the_number_of_files_is_held(attack, is_open):
    result, host = attack("many_files", limits=LIMITS)
    assert 1000 < host.peak_files <= MAX_INODES * (2 if is_open("9") else 1)
    assert result.out_of_memory or result.exit_code == 0
    assert "all made" not in result.stdout


def test_10_the_size_of_a_file_is_held(attack):
    _, host = attack("sparse_file", limits=LIMITS)
    assert host.peak_file_bytes <= MAX_FILE_BYTES


def test_11_endless_output_ends_the_command(attack):
    before = resident_bytes_of_this_process()
    result, host = attack("endless_output", limits=LIMITS)
    assert result.truncated
    assert not result.timed_out
    assert len(result.stdout) + len(result.stderr) < 2 * LIMITS.output_bytes + 200
    assert resident_bytes_of_this_process() - before < 100 * MEBIBYTE
    assert host.all_gone_within(1)


def test_16_the_rate_of_processor_use_is_held(attack, is_open):
    """Bubblewrap is shown not to hold it: where that changes, it should say so."""
    seconds, cpus = 2.5, 0.1
    limits = SandboxLimits(memory_bytes=512 * MEBIBYTE, cpus=cpus)
    result, host = attack("spin", limits=limits, timeout_seconds=seconds)
    if is_open("16"):
        assert host.peak_cpu_seconds > 1.5 * seconds * cpus
    else:
        assert host.peak_cpu_seconds < 1.5 * seconds * cpus
    assert result.timed_out or result.exit_code != 0
    assert host.all_gone_within(1)


def resident_bytes_of_this_process() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
