import asyncio
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from gagar_cli.calibrate import CalibrateSettings, plan_calibration
from gagar_cli.calibrate_checks import check_copies
from gagar_cli.core.calibration import CalibrationGroup, Variant
from gagar_cli.core.flaws import FLAWS, plant_flaw
from gagar_cli.core.schema import Group, GroupKey
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.group_grading import GroupGrader, GroupGraderSettings
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.sandbox.select import SandboxRequest

DEMO = Path(str(files("gagar_cli").joinpath("demo_data")))
DUMP = str(DEMO / "demo-rollouts.jsonl")
OFFLINE = EndpointSettings("offline")


@pytest.fixture
def grader_settings(bubblewrap) -> GroupGraderSettings:
    assert bubblewrap.name == "bubblewrap"
    return GroupGraderSettings(
        OFFLINE, repos=str(DEMO / "repositories"), sandbox=SandboxRequest("bubblewrap")
    )


def test_planted_flaws_still_pass_the_demos_tests(grader_settings, tmp_path):
    settings = CalibrateSettings(
        (DUMP,), str(tmp_path), grader_settings, (OFFLINE,), flaws_per_group=len(FLAWS), is_verified=True
    )
    with open_dump((DUMP,), ReadOptions()) as dump:
        groups = plan_calibration(dump, settings)

    async def check():
        async with GroupGrader(grader_settings) as grader:
            return await check_copies(groups, grader)

    checked = asyncio.run(check())
    assert (len(groups), checked.n_checked, checked.n_dropped, checked.notes) == (4, 4, 0, [])
    planted = {
        variant.kinds[0] for one in checked.groups for variant in one.variants if variant.role == "flaw"
    }
    # No attempt of the demo returns a plain name that it was given, or brings a test.
    assert set(FLAWS) - planted == {"special_case", "weakened_test"}


def test_a_copy_that_breaks_the_tests_is_left_out(grader_settings):
    with open_dump((DUMP,), ReadOptions()) as dump:
        row = next(n for n, passed in enumerate(dump.index["passed"]) if passed)
        task, original = dump.read_trajectories([row])[0]
    broken = plant_flaw(original.model_patch, "debug_print", seed=0).replace("+", "+raise SystemExit(1); ", 1)
    broken = broken.replace('print("DEBUG: reached here")', "raise RuntimeError")
    patches = {"v1": original.model_patch, "v2": broken, "v3": original.model_patch, "v4": "no patch"}
    variants = tuple(
        Variant(name, role)
        for name, role in zip(patches, ("original", "flaw", "flaw", "stacked"), strict=True)
    )
    trajectories = tuple(
        replace(original, trajectory_id=name, model_patch=patch) for name, patch in patches.items()
    )
    group = CalibrationGroup(Group(GroupKey(None, "g"), task, trajectories), variants)
    failing = replace(
        group,
        group=replace(
            group.group, trajectories=(replace(trajectories[0], model_patch="no patch"), *trajectories[1:])
        ),
    )
    untestable = replace(group, group=replace(group.group, task=replace(task, test_command=None)))

    async def check():
        async with GroupGrader(grader_settings) as grader:
            return await check_copies([group, failing, untestable], grader)

    checked = asyncio.run(check())
    assert [variant.variant_id for variant in checked.groups[0].variants] == ["v1", "v3"]
    assert [one.trajectory_id for one in checked.groups[0].group.trajectories] == ["v1", "v3"]
    assert checked.groups[1:] == (failing, untestable)
    assert (checked.n_checked, checked.n_failing, checked.n_unknown, checked.n_dropped) == (1, 1, 1, 2)
    assert [note.partition(" ")[0] for note in checked.notes] == ["1", "1"]
