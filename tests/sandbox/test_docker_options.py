import json

import pytest

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox.base import SandboxLimits
from gagar_cli.sandbox.docker_features import EngineFeatures
from gagar_cli.sandbox.docker_options import container_config, place_checkout

MOUNT = {"Type": "bind", "Source": "/somewhere", "Target": "/base", "ReadOnly": True}


def config(**changes):
    options = {
        "checkout": "/checkout",
        "volumes": (),
        "labels": {"gagar.pid": "1"},
        "features": EngineFeatures(),
    }
    return container_config("sha256:1", MOUNT, SandboxLimits(), **(options | changes))


def test_every_lock_is_on():
    host = config()["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"]
    assert "no-new-privileges" in host["SecurityOpt"]
    assert host["ReadonlyRootfs"] is True
    assert host["IpcMode"] == "private"
    assert host["LogConfig"] == {"Type": "none"}
    assert not {"Privileged", "CapAdd", "Devices", "Binds", "PidMode", "UsernsMode", "GroupAdd"} & set(host)


def test_nobody_runs_it_and_it_ends_with_its_owner():
    made = config()
    assert made["User"] == "65534:65534"
    assert (made["Entrypoint"], made["StdinOnce"], made["OpenStdin"]) == (["cat"], True, True)
    assert made["HostConfig"]["AutoRemove"] is True


def test_memory_has_no_swap_and_limits_are_the_callers():
    limits = SandboxLimits(memory_bytes=7_000_000, cpus=1.5, n_processes=9, scratch_bytes=4000)
    host = container_config(
        "i", MOUNT, limits, checkout="/c", volumes=(), labels={}, features=EngineFeatures()
    )["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (7_000_000, 7_000_000)
    assert (host["NanoCpus"], host["PidsLimit"]) == (1_500_000_000, 9)
    assert "size=4000," in host["Tmpfs"]["/c"]
    assert "size=1000," in host["Tmpfs"]["/tmp"]


def test_volumes_of_the_image_are_bounded():
    assert set(config(volumes=("/data",))["HostConfig"]["Tmpfs"]) == {"/checkout", "/tmp", "/data"}


def test_the_environment_holds_nothing_of_this_machine():
    assert config()["Env"] == ["HOME=/tmp", "LANG=C.UTF-8"]


@pytest.mark.parametrize("own_filter", [True, False])
def test_old_engines_get_a_filter_of_ours(own_filter):
    security = config(features=EngineFeatures(own_filter))["HostConfig"]["SecurityOpt"]
    profiles = [json.loads(one.removeprefix("seccomp=")) for one in security if one.startswith("seccomp=")]
    assert len(profiles) == own_filter
    assert all(one["defaultAction"] == "SCMP_ACT_ERRNO" for one in profiles)


def test_a_runtime_is_asked_for_where_one_was_named():
    assert "Runtime" not in config()["HostConfig"]
    assert config(features=EngineFeatures(runtime="runsc"))["HostConfig"]["Runtime"] == "runsc"


def test_only_comforts_are_left_out():
    bare = EngineFeatures(has_init=False, has_owner_by_number=False, has_inode_limit=False)
    full, less = config()["HostConfig"], config(features=bare)["HostConfig"]
    assert {name for name in full if full[name] != less[name]} == {"Init", "Tmpfs"}
    assert less["Tmpfs"]["/checkout"] == "rw,nosuid,nodev,exec,size=1073741824,U,mode=0700"


def test_a_checkout_stands_where_the_image_expects_it():
    assert place_checkout(None) == "/checkout"
    assert place_checkout("/testbed") == "/testbed"
    assert place_checkout("/a//b/./c/") == "/a/b/c"


@pytest.mark.parametrize("workdir", ["", "a", "/", "//", "//a", "/a/../b", "/a\x00", "/a\nb", "/base/"])
def test_a_workdir_that_is_no_plain_place_is_refused(workdir):
    with pytest.raises(SandboxError, match="workdir is"):
        place_checkout(workdir)
