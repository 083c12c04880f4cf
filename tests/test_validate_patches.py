"""What `validate`, `head`, `grade` and its dry run tell of patches that passing attempts lack."""

import json
from pathlib import Path
from typing import Any

import pytest

PATCH = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n"


@pytest.mark.parametrize(
    ("patches", "notes"),
    [
        (["", " \n", PATCH], ["2 passing attempts have an empty patch"]),
        (
            [None, "", PATCH],
            ["1 passing attempt has an empty patch", "1 passing attempt has no patch (null)"],
        ),
        ([PATCH, PATCH, PATCH], []),
        (["absent", "absent", "absent"], ["no record has a patch (model_patch)"]),
    ],
    ids=["empty", "null", "all there", "no column"],
)
def test_validate_tells_passes_without_a_change(
    gagar: Any, tmp_path: Path, patches: list[str | None], notes: list[str]
) -> None:
    """The fourth attempt failed: that it changed nothing is no surprise."""
    rows: list[dict[str, Any]] = [
        {"group_id": "g", "trajectory_id": f"t{number}", "reward": float(number < 3), "model_patch": patch}
        for number, patch in enumerate([*patches, ""])
    ]
    if "absent" in patches:
        rows = [{name: value for name, value in row.items() if name != "model_patch"} for row in rows]
    dump = tmp_path / "dump.jsonl"
    dump.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = gagar("validate", dump)
    told = [line.removeprefix("note: ") for line in done.stderr.splitlines() if "patch" in line]
    assert done.returncode == 0
    assert [line.partition(":")[0] for line in told] == notes


def written(path: Path, patches: list[str | None], group_id: str = "g") -> str:
    """A group in which all but the last attempt passed."""
    rows = [
        {"group_id": group_id, "trajectory_id": f"{group_id}{number}", "reward": float(number < len(patches) - 1),
         "model_patch": patch, "messages": [{"role": "assistant", "content": "done"}]}
        for number, patch in enumerate(patches)
    ]  # fmt: skip
    with path.open("a") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)
    return str(path)


def told(done: Any) -> list[str]:
    assert done.returncode == 0, done.stderr
    lines = (line.removeprefix("note: ") for line in done.stderr.splitlines() if "passing attempt" in line)
    return [line.partition(":")[0] for line in lines]


GRADE = ("--model", "offline", "--sandbox", "inspect-only")


@pytest.mark.parametrize(
    ("patches", "notes"),
    [
        (["", PATCH, PATCH, ""], ["1 passing attempt has an empty patch"]),
        ([None, " ", "", PATCH], [
            "2 passing attempts have an empty patch", "1 passing attempt has no patch (null)",
        ]),
        ([PATCH, PATCH, ""], []),
    ],
    ids=["empty", "empty and null", "of the failing one"],
)  # fmt: skip
def test_head_grade_and_its_dry_run_tell_it_too(
    gagar: Any, tmp_path: Path, patches: list[str | None], notes: list[str]
) -> None:
    dump = written(tmp_path / "dump.jsonl", patches)
    assert told(gagar("head", dump)) == notes
    assert told(gagar("grade", dump, "-o", tmp_path / "r.jsonl", *GRADE, "--dry-run")) == notes
    for _ in ("the first run", "one that only resumes"):
        assert told(gagar("grade", dump, "-o", tmp_path / "r.jsonl", *GRADE)) == notes


def test_a_group_that_is_graded_again_counts_once(gagar: Any, tmp_path: Path) -> None:
    dump = tmp_path / "dump.jsonl"
    written(dump, ["", PATCH, PATCH])
    with dump.open("a") as stream:
        stream.write('{"end_of_group": true, "group_id": "g"}\n')
        row = {"group_id": "g", "trajectory_id": "late", "reward": 0.0, "model_patch": PATCH}
        stream.write(json.dumps(row) + '\n{"end_of_dump": true}\n')
    done = gagar("grade", dump, "-o", tmp_path / "r.jsonl", *GRADE, "--follow", "--regrade-late")
    assert told(done) == ["1 passing attempt has an empty patch"]


def test_where_only_some_are_looked_at_it_says_so(gagar: Any, tmp_path: Path) -> None:
    dump = str(tmp_path / "dump.jsonl")
    for number in range(60):
        written(Path(dump), ["", PATCH, PATCH], f"g{number}")
    assert told(gagar("head", dump)) == ["32 of 64 passing attempts looked at have an empty patch"]
    dry = gagar("grade", dump, "-o", tmp_path / "r.jsonl", *GRADE, "--dry-run")
    assert told(dry) == ["50 of 100 passing attempts looked at have an empty patch"]
