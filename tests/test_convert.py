"""What is converted counts as it did before."""

from pathlib import Path
from typing import Any

import pytest

from gagar_cli.convert import ConvertSettings, run
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from tests.io.formats.conftest import native as native
from tests.io.test_following_native import verl

COUNTED = ("group_id", "trajectory_id", "step", "reward", "passed", "invalid")


def attempts(group: str, *facts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"group_id": group, "trajectory_id": f"t{n}", **each} for n, each in enumerate(facts)]


JUDGED = attempts(
    "g",
    {"resolved": True, "reward": 0.5},
    {"resolved": False, "reward": 0.0},
    {"resolved": None, "reward": 1.0},
)
REWARDED = attempts("h", {"reward": 1.0}, {"reward": 0.0}, {"reward": None})
RESOLVED = attempts("i", {"resolved": True}, {"resolved": False}, {"resolved": None}, {"infra_failure": True})
MIXED = {
    "rewards beside verdicts": {"1.jsonl": JUDGED, "2.jsonl": REWARDED},
    "verdicts alone beside both": {"1.jsonl": JUDGED, "2.jsonl": RESOLVED},
    "verdicts alone beside rewards alone": {"1.jsonl": RESOLVED, "2.jsonl": REWARDED},
    "verl, some with acc": {"1.jsonl": [verl(1, "a", 0, 0.5, acc=True), verl(1, "a", 1, 1.0), verl(1, "a", 2, 0.0)]},
}  # fmt: skip


def counted(dump: Dump) -> list[tuple[object, ...]]:
    return dump.index.select(COUNTED).rows()


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
@pytest.mark.parametrize("files", MIXED.values(), ids=MIXED)
def test_files_that_say_different_things_count_the_same_in_one(
    native: Any, tmp_path: Path, files: dict[str, Any], ending: str
) -> None:
    before = native(files)
    output = str(tmp_path / f"out.{ending}")
    result = run(ConvertSettings(tuple(str(tmp_path / name) for name in files), output))
    with open_dump([output], ReadOptions()) as after:
        assert counted(after) == counted(before)
    assert (result.n_passed, result.n_invalid) == (
        before.index["passed"].sum(),
        before.index["invalid"].sum(),
    )


def test_a_null_that_says_not_evaluated_stays_one(native: Any, tmp_path: Path) -> None:
    native({"1.jsonl": JUDGED})
    output = str(tmp_path / "out.jsonl")
    run(ConvertSettings((str(tmp_path / "1.jsonl"),), output))
    with open_dump([output], ReadOptions()) as after:
        assert [record["resolved"] for record in after.iter_records()] == [True, False, None]


def test_attempts_at_one_prompt_stay_a_group_whatever_else_their_messages_hold(
    native: Any, tmp_path: Path
) -> None:
    def asked(stamp: float) -> dict[str, Any]:
        messages = [
            {"role": "user", "content": "fix", "extra": {"timestamp": stamp}},
            {"role": "assistant", "content": "done"},
        ]
        info = {"exit_status": "Submitted", "submission": "p"}
        return {"trajectory_format": "mini-swe-agent-1.1", "messages": messages, "info": info}

    before = native({f"run/{n}/{n}.traj.json": asked(n) for n in range(3)}, "run", group_by="prompt")
    assert before.index["group"].n_unique() == 1
    output = str(tmp_path / "out.jsonl")
    run(ConvertSettings((str(tmp_path / "run"),), output, read=ReadOptions(group_by="prompt")))
    with open_dump([output], ReadOptions()) as after:
        assert after.index["group_id"].to_list() == before.index["group_id"].to_list()
