"""No method and no cap pays an integrity violation more than an honest failure, whatever the rewards are."""

import json
from pathlib import Path
from typing import Any

import pytest

from gagar_cli.core.caps import CAPS
from gagar_cli.core.estimators import METHODS
from gagar_cli.redistribute import RedistributeSettings, run
from gagar_cli.redistribution_summary import RedistributeResult

Record = dict[str, Any]
NAMES = ("a", "b", "v", "f", "g")
REWARDS = {
    "binary": (1, 1, 1, 0, 0),
    "minus-one": (1, 1, 1, -1, -1),
    "shaped": (0.9, 0.6, 0.3, 0.2, 0.1),
    "penalties": (1, 0.4, 1.2, -0.2, -1.3),
}
RANKING: Record = {
    "group_id": "g",
    "candidates": [
        {"trajectory_id": "a", "tier": "T1", "rank": 1, "weighted_score": 5.0},
        {"trajectory_id": "b", "tier": "T3", "rank": 1, "weighted_score": 3.0},
        {"trajectory_id": "v", "tier": None, "rank": None, "flags": {"integrity_violation": True}},
    ],
}
COLUMNS: Record = {
    "process_score": (1.0, 0.5, 1.0, 0.2, 0.4),
    "format_ok": (True, True, True, False, False),
    "error_class": (None, None, "rare", "E", "E"),
    # The violation takes the way of the best pass, and leaves the failures' ways early.
    "turn_states": (["s", "t"], ["s", "t"], ["s", "t"], ["s", "t", "u", "t"], ["s", "u"]),
}


def dump_of(rewards: tuple[float, ...], **more: tuple[object, ...]) -> list[Record]:
    columns = {"reward": rewards, **COLUMNS, **more}
    return [
        {"group_id": "g", "trajectory_id": name, "resolved": place < 3}
        | {column: values[place] for column, values in columns.items()}
        for place, name in enumerate(NAMES)
    ]


def redistribute(
    folder: Path, dump: list[Record], ranking: Record = RANKING, **more: Any
) -> tuple[RedistributeResult, list[Record]]:
    for name, records in (("dump", dump), ("rankings", [ranking])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    output = folder / "out.jsonl"
    dumps, rankings = (str(folder / "dump.jsonl"),), str(folder / "rankings.jsonl")
    settings = RedistributeSettings(dumps, rankings, str(output), check=True, overwrite=True, **more)
    return run(settings), [json.loads(line) for line in output.read_text().splitlines()]


def assert_not_rewarded(result: RedistributeResult, rows: list[Record]) -> None:
    paid = {row["trajectory_id"]: row for row in rows}
    for name in ("reward_effective", "advantage", "advantage_base"):
        assert paid["v"][name] <= min(0, paid["f"][name], paid["g"][name]), name
    assert not [text for text in result.breaches if "violation" in text]


@pytest.mark.parametrize("rewards", REWARDS.values(), ids=REWARDS)
@pytest.mark.parametrize("method", METHODS)
def test_no_method_pays_a_violation_more_than_a_failure(
    tmp_path: Path, method: str, rewards: tuple[float, ...]
) -> None:
    assert_not_rewarded(*redistribute(tmp_path, dump_of(rewards), method=method))


@pytest.mark.parametrize("rewards", REWARDS.values(), ids=REWARDS)
@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("method", ["gagar", "gagar-reward"])
def test_no_cap_pays_a_violation_more_than_a_failure(
    tmp_path: Path, method: str, cap: str, rewards: tuple[float, ...]
) -> None:
    assert_not_rewarded(*redistribute(tmp_path, dump_of(rewards), method=method, cap=cap))


@pytest.mark.parametrize(
    "more",
    [
        {"method": "papo", "assignments": ("process_over=group", "scale=none")},
        {"method": "edas", "eligible": 'trajectory_id != "v"'},
        {"method": "grpo", "like": "nemo"},
        {"method": "gigpo", "assignments": ("episode_over=turns",)},
    ],
    ids=["papo-group", "outside", "nemo", "turns"],
)
@pytest.mark.parametrize("rewards", REWARDS.values(), ids=REWARDS)
def test_no_option_pays_a_violation_more_than_a_failure(
    tmp_path: Path, more: Record, rewards: tuple[float, ...]
) -> None:
    assert_not_rewarded(*redistribute(tmp_path, dump_of(rewards), **more))


def test_violation_under_rewards_of_minus_one_is_a_failure_to_the_last_bit(tmp_path: Path) -> None:
    result, rows = redistribute(tmp_path, dump_of(REWARDS["minus-one"]))
    assert [row["reward_effective"] for row in rows] == [1, 1, -1, -1, -1]
    # r − mean r with a mean of −0.2, and what the passes have together, 2.4, by factors of 1 and 0.2 with 1.5 at most.
    assert [row["advantage"] for row in rows] == pytest.approx([1.8, 0.6, -0.8, -0.8, -0.8])
    assert result.n_broken_groups == 0


def test_equivalent_rewards_give_the_advantages_where_there_are_any(tmp_path: Path) -> None:
    for method in ("recode", "papo"):
        for assignments in ((), ("process_over=group",) if method == "papo" else ("process_weight=0.5",)):
            _, rows = redistribute(
                tmp_path, dump_of(REWARDS["minus-one"]), method=method, assignments=assignments
            )
            rewards = [row["reward_equivalent"] for row in rows]
            mean = sum(rewards) / len(rewards)
            assert [reward - mean for reward in rewards] == pytest.approx([row["advantage"] for row in rows])


def test_rewards_of_turns_are_withdrawn_and_the_last_one_is_a_failures(tmp_path: Path) -> None:
    told = ([0.0, 1.0], [0.0, 1.0], [0.5, 1.0], [0.0, 0.0, 0.0, -1.0], [-0.5, -1.0])
    dump = dump_of(REWARDS["minus-one"], turn_rewards=told)
    _, rows = redistribute(tmp_path, dump, method="gigpo", assignments=("discount=1",), per_turn=True)
    returns = [row["turn_return"] for row in rows if row["trajectory_id"] == "v"]
    assert returns == [-1.0, -1.0]


def test_turns_of_a_violation_come_down_with_it(tmp_path: Path) -> None:
    dump = dump_of(REWARDS["binary"])
    _, whole = redistribute(tmp_path, dump, method="graphgpo")
    _, turns = redistribute(tmp_path, dump, method="graphgpo", per_turn=True)
    own = [row for row in turns if row["trajectory_id"] == "v"]
    mean = sum(row["advantage"] for row in own) / len(own)
    assert mean == pytest.approx(next(row["advantage"] for row in whole if row["trajectory_id"] == "v"))
    for row in own:
        assert row["advantage"] == pytest.approx(row["advantage_episode"] + row["advantage_state"])


@pytest.mark.parametrize("action", ["t3", "report"])
def test_other_actions_leave_the_reward(tmp_path: Path, action: str) -> None:
    _, rows = redistribute(tmp_path, dump_of(REWARDS["minus-one"]), integrity_action=action)
    assert [row["reward_effective"] for row in rows] == [1, 1, 1, -1, -1]
