import os
import subprocess
import sys
from dataclasses import replace

from gagar_cli.sandbox.owner import current_owner, is_orphaned


def test_what_lives_is_no_orphan():
    assert not is_orphaned(current_owner().labels())


def test_what_has_ended_is_an_orphan():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert is_orphaned(replace(current_owner(), pid=str(child.pid)).labels())


def test_a_number_used_again_is_not_the_owner():
    assert is_orphaned(replace(current_owner(), start="1").labels())


def test_another_boot_leaves_orphans():
    assert is_orphaned(replace(current_owner(), boot_id="00000000").labels())


def test_an_owner_that_cannot_be_looked_up_is_left_alone():
    elsewhere = replace(current_owner(), pid_namespace="pid:[1]", pid="999999999")
    assert not is_orphaned(elsewhere.labels())


def test_labels_of_others_are_left_alone():
    assert not is_orphaned({})
    assert not is_orphaned({"gagar.pid": str(os.getpid())})


def test_a_hostile_process_number_is_no_path():
    assert is_orphaned(replace(current_owner(), pid="../self").labels())
