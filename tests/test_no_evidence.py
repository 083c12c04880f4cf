"""Groups in which nothing shows what was done: no call is made about them, and the lack of patches is told."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gagar_cli.grade import GradeSettings, run
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grading_estimate import estimate
from gagar_cli.io.dump import ReadOptions
from gagar_cli.io.reading_notes import NO_PATCH
from gagar_cli.validate import ValidateSettings
from gagar_cli.validate import run as validate

PATCH = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n"
LOG = [{"role": "user", "content": "fix"}, {"role": "assistant", "content": "done"}]


def written(tmp_path: Path, **of_first: Any) -> str:
    """Two groups of two passing and one failing attempt; `of_first` is the evidence of each group's first one."""
    path = tmp_path / "dump.jsonl"
    rows = [
        {"group_id": group, "trajectory_id": f"t{n}", "reward": float(n < 2), **(of_first if n == 0 else {})}
        for group in ("g", "h")
        for n in range(3)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def settings(dump: str, tmp_path: Path, **more: Any) -> GradeSettings:
    endpoint = EndpointSettings(model="offline")
    return replace(
        GradeSettings((dump,), str(tmp_path / "r.jsonl"), endpoint, sandbox="inspect-only"), **more
    )


@pytest.mark.parametrize(
    "nothing",
    [{}, {"model_patch": None}, {"model_patch": "  \n"}, {"messages": []}, {"test_output": ""}],
    ids=["none of them", "null", "an empty patch", "no messages", "no output"],
)
def test_a_group_without_evidence_ends_before_any_call(
    tmp_path: Path, serve: Any, nothing: dict[str, Any]
) -> None:
    endpoint = serve()
    asked = EndpointSettings(model="m", base_url=endpoint.base_url)
    result = run(settings(written(tmp_path, **nothing), tmp_path, endpoint=asked))
    assert result.n_ungraded == 2
    lines = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert {(line["status"], line["reason"]) for line in lines} == {("ungraded", "no_evidence")}
    assert all(line["grader"]["calls"] == 0 for line in lines)
    assert not [each for each in endpoint.requests if "messages" in each]


@pytest.mark.parametrize("some", [{"model_patch": PATCH}, {"messages": LOG}, {"test_output": "1 passed"}])
def test_one_attempt_with_evidence_is_enough(tmp_path: Path, some: dict[str, Any]) -> None:
    result = run(settings(written(tmp_path, **some), tmp_path))
    assert (result.n_graded, result.n_ungraded) == (2, 0)


def test_a_patch_that_is_joined_later_is_evidence(tmp_path: Path) -> None:
    dump = written(tmp_path)
    assert run(settings(dump, tmp_path)).n_ungraded == 2
    joined = tmp_path / "p.jsonl"
    rows = [
        {"trajectory_id": f"t{n}", "group_id": g, "model_patch": PATCH} for g in ("g", "h") for n in range(2)
    ]
    joined.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run(settings(dump, tmp_path, read=ReadOptions(joins=(str(joined),))))
    assert (result.n_graded, result.n_ungraded) == (2, 0)


@pytest.mark.parametrize(
    ("evidence", "is_told"),
    [({}, True), ({"messages": LOG}, True), ({"messages": LOG, "model_patch": None}, True), ({"model_patch": PATCH}, False)],
    ids=["nothing", "messages", "null", "a patch"],
)  # fmt: skip
def test_a_dump_without_patches_is_told_by_grade_and_its_dry_run(
    tmp_path: Path, evidence: dict[str, Any], is_told: bool
) -> None:
    asked = settings(written(tmp_path, **evidence), tmp_path)
    assert (NO_PATCH in estimate(asked).notes) is is_told
    assert (NO_PATCH in run(asked).notes) is is_told


def test_validate_tells_a_dump_without_patches(tmp_path: Path) -> None:
    assert NO_PATCH in validate(ValidateSettings((written(tmp_path, messages=LOG),))).notes
    assert NO_PATCH not in validate(ValidateSettings((written(tmp_path, model_patch=PATCH),))).notes


def test_groups_without_evidence_are_no_calls_of_an_estimate(tmp_path: Path) -> None:
    found = estimate(settings(written(tmp_path), tmp_path))
    assert (found.n_to_grade, found.n_calls, found.n_input_tokens) == (2, 0, 0)
    assert any("2 of 2 groups looked at" in note and "no_evidence" in note for note in found.notes)


def test_half_of_the_groups_take_half_of_the_calls(tmp_path: Path) -> None:
    whole = estimate(settings(written(tmp_path, messages=LOG), tmp_path))
    dump = Path(written(tmp_path, messages=LOG))
    rows = [json.loads(line) for line in dump.read_text().splitlines()]
    for row in rows:
        if row["group_id"] == "h":
            row.pop("messages", None)
    dump.write_text("".join(json.dumps(row) + "\n" for row in rows))
    half = estimate(settings(str(dump), tmp_path))
    assert half.n_calls * 2 == whole.n_calls
    assert half.n_input_tokens * 2 == pytest.approx(whole.n_input_tokens, abs=2)
