import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gagar_cli.sandbox.leftovers import reap_directories, removed_after_death
from gagar_cli.sandbox.owner import current_owner, owned_name


@pytest.fixture
def place(monkeypatch, tmp_path) -> Path:
    """Where temporary directories are made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def dead_name(suffix: str) -> str:
    owner = current_owner()
    return owned_name(owner, suffix).replace(f"-{owner.start}-", "-1-")


def test_directories_of_the_dead_are_removed_and_named(place):
    (place / dead_name("a") / "trees" / "x").mkdir(parents=True)
    (place / dead_name("a") / "trees" / "x" / "file").write_text("x")
    assert reap_directories() == [str(place / dead_name("a"))]
    assert list(place.iterdir()) == []


def test_directories_of_the_living_and_of_others_stay(place):
    kept = [owned_name(current_owner(), "a"), "gagar-notes", "gagar-1-2-3-4-x"]
    for name in kept:
        (place / name).mkdir()
    assert reap_directories() == []
    assert sorted(path.name for path in place.iterdir()) == sorted(kept)


def test_a_link_with_such_a_name_is_not_followed(place, tmp_path_factory):
    target = tmp_path_factory.mktemp("target")
    (target / "file").write_text("x")
    (place / dead_name("a")).symlink_to(target)
    assert reap_directories() == []
    assert (target / "file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make directories of others")
def test_a_directory_that_someone_else_made_stays(place):
    (place / dead_name("a")).mkdir()
    os.chown(place / dead_name("a"), 1234, 1234)
    assert reap_directories() == []


def test_a_guard_that_is_let_go_leaves_what_others_of_its_process_made(place):
    kept = place / owned_name(current_owner(), "other")
    kept.mkdir()
    with removed_after_death():
        (place / owned_name(current_owner(), "own")).mkdir()
    assert len(list(place.iterdir())) == 2


def test_a_guard_that_loses_its_owner_removes_what_it_made(place):
    owner = (
        "import os, sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "from gagar_cli.sandbox.leftovers import removed_after_death\n"
        "from gagar_cli.sandbox.owner import current_owner, owned_name\n"
        "with removed_after_death(), removed_after_death():\n"
        "    os.mkdir(os.path.join(sys.argv[1], owned_name(current_owner(), 'a')))\n"
        "    print(flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", owner, str(place)], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (-9, b"\n")
    deadline = time.monotonic() + 10
    while list(place.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(place.iterdir()) == []


def test_the_command_says_what_it_removed(tmp_path):
    left = tmp_path / dead_name("a")
    left.mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path), "DOCKER_HOST": "unix:///nonexistent.sock"}
    command = [sys.executable, "-m", "gagar_cli", "clean", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0
    assert json.loads(done.stdout)["directories"] == [str(left)]
    assert done.stderr.startswith("note: engine: no docker engine answers")
    again = subprocess.run(command[:-1], capture_output=True, text=True, env=environment, timeout=60)
    assert "nothing was left behind" in again.stdout
