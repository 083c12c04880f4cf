"""Whether planted copies still do their job: the task's own tests are run over them, in the sandbox of grading."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gagar_cli.core.calibration import CalibrationGroup
from gagar_cli.core.text import counted
from gagar_cli.group_grading import GroupGrader

_AS_THE_ORIGINAL = ("original", "copy")


@dataclass(frozen=True, slots=True)
class Checked:
    """Groups without the copies that fail."""

    groups: tuple[CalibrationGroup, ...]
    n_checked: int
    """Groups whose original passes its tests here, so that its copies could be checked."""
    n_failing: int
    """Groups whose original fails them here: nothing is known of its copies."""
    n_unknown: int
    """Groups whose tests could not be run."""
    n_dropped: int
    """Copies that failed and were left out."""

    @property
    def notes(self) -> list[str]:
        """What was not checked, for people."""
        notes = []
        if self.n_unknown:
            notes.append(
                f"{self.n_unknown} of {counted(len(self.groups), 'original')} could not be tested: that takes a test command, "
                "a repository and a sandbox; their copies are not verified"
            )
        if self.n_failing:
            notes.append(
                f"{self.n_failing} of {counted(len(self.groups), 'original')} failed the task's own tests here: "
                "their copies are not verified"
            )
        return notes


async def check_copies(groups: Sequence[CalibrationGroup], grader: GroupGrader) -> Checked:
    """Run the tests over each original, and where it passes over its flawed copies."""
    kept: list[CalibrationGroup] = []
    n_by_result = {True: 0, False: 0, None: 0}
    n_dropped = 0
    for one in groups:
        patches = {attempt.trajectory_id: attempt.model_patch or "" for attempt in one.group.trajectories}
        original = next(variant for variant in one.variants if variant.role == "original")
        result = await grader.passes_tests(one.group.task, patches[original.variant_id])
        n_by_result[result] += 1
        tried = [
            variant.variant_id for variant in one.variants if result and variant.role not in _AS_THE_ORIGINAL
        ]
        results = await asyncio.gather(
            *(grader.passes_tests(one.group.task, patches[variant_id]) for variant_id in tried)
        )
        failing = {variant_id for variant_id, passes in zip(tried, results, strict=True) if passes is False}
        n_dropped += len(failing)
        remaining = tuple(each for each in one.group.trajectories if each.trajectory_id not in failing)
        variants = tuple(variant for variant in one.variants if variant.variant_id not in failing)
        kept.append(CalibrationGroup(replace(one.group, trajectories=remaining), variants))
    return Checked(tuple(kept), n_by_result[True], n_by_result[False], n_by_result[None], n_dropped)
