"""One advantage a turn or a token, from file to file."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.dump import ReadOptions
from gagar_cli.redistribute import RedistributeSettings, run

Record = dict[str, Any]
NAMES = ("a", "b", "c")


def attempts(**columns: list[object]) -> list[Record]:
    """Two passes and a failure of one group."""
    return [
        {"group_id": "g", "trajectory_id": name, "resolved": name != "c"}
        | {column: values[number] for column, values in columns.items()}
        for number, name in enumerate(NAMES)
    ]


WALKS = attempts(turn_states=[["s", "t"], ["s"], ["s", "t"]])
RANKING: Record = {
    "group_id": "g",
    "candidates": [
        {"trajectory_id": "a", "tier": "T1", "rank": 1},
        {"trajectory_id": "b", "tier": "T3", "rank": 1},
    ],
}


def redistribute(
    folder: Path, dump: list[Record], suffix: str = "jsonl", *, as_parquet: bool = False, **more: Any
) -> list[Record]:
    path, output = folder / f"dump.{'parquet' if as_parquet else 'jsonl'}", folder / f"out.{suffix}"
    if as_parquet:
        pl.DataFrame(dump).write_parquet(path)
    else:
        path.write_text("".join(json.dumps(record) + "\n" for record in dump))
    settings = {
        "rankings": None,
        "method": "gigpo",
        "overwrite": True,
        "dumps": (str(path),),
        "output": str(output),
    }
    if settings["method"] == "gagar" or more.get("method") == "gagar":
        (folder / "r.jsonl").write_text(json.dumps(RANKING))
        settings["rankings"] = str(folder / "r.jsonl")
    run(RedistributeSettings(**{**settings, **more}))
    frame = pl.read_parquet(output) if suffix == "parquet" else pl.read_ndjson(output)
    return frame.to_dicts()


PLAIN = ("scale=none", "discount=1")


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("as_parquet", [False, True])
def test_every_turn_has_a_row(tmp_path: Path, suffix: str, as_parquet: bool) -> None:
    rows = redistribute(tmp_path, WALKS, suffix, as_parquet=as_parquet, per_turn=True, assignments=PLAIN)
    keys = [(row["group_id"], row["trajectory_id"], row["turn"]) for row in rows]
    assert keys == [("g", "a", 1), ("g", "a", 2), ("g", "b", 1), ("g", "c", 1), ("g", "c", 2)]
    # The attempts are 1/3, 1/3, −2/3 off their mean; so are those from s; from t one is ½ above, the other below.
    thirds = [1 / 3, 1 / 3, 1 / 3, -2 / 3, -2 / 3]
    assert [row["advantage_episode"] for row in rows] == pytest.approx(thirds)
    assert [row["advantage_state"] for row in rows] == pytest.approx([1 / 3, 0.5, 1 / 3, -2 / 3, -0.5])
    assert [row["advantage"] for row in rows] == pytest.approx([2 / 3, 5 / 6, 2 / 3, -4 / 3, -7 / 6])
    assert [row["n_in_state"] for row in rows] == [3, 2, 3, 3, 2]
    assert [row["turn_return"] for row in rows] == [1, 1, 1, 0, 0]


def test_summary_a_trajectory_is_the_mean_over_its_turns(tmp_path: Path) -> None:
    rows = redistribute(tmp_path, WALKS, assignments=PLAIN)
    assert [row["advantage"] for row in rows] == pytest.approx([0.75, 2 / 3, -1.25])
    assert [row["reward_equivalent"] for row in rows] == [None] * 3


def test_rewards_and_next_states_of_the_dump_are_used(tmp_path: Path) -> None:
    dump = attempts(
        turn_states=[["s", "t"], ["s"], ["s", "t"]],
        turn_rewards=[[2, 1], [0], [0, 0]],
        path=[{"to": ["t", "x"]}, {"to": ["x"]}, {"to": ["t", "y"]}],
    )
    rows = redistribute(tmp_path, dump, per_turn=True, assignments=("discount=0.5",))
    assert [row["turn_return"] for row in rows] == [2.5, 1, 0, 0, 0]
    read = ReadOptions(fields={"turn_next_states": "path.to"})
    rows = redistribute(tmp_path, dump, per_turn=True, method="graphgpo", read=read)
    assert [row["turn_return"] for row in rows] == pytest.approx([1, 10, 10, 1, 0.1])


def test_violation_wins_nothing_at_any_turn(tmp_path: Path) -> None:
    dump = attempts(turn_states=[["s"], ["s"], ["s"]], turn_rewards=[[1], [1], [0]])
    cheat = {"trajectory_id": "a", "tier": None, "rank": None, "flags": {"integrity_violation": True}}
    (tmp_path / "cheat.jsonl").write_text(json.dumps({"group_id": "g", "candidates": [cheat]}))
    rows = redistribute(tmp_path, dump, per_turn=True, rankings=str(tmp_path / "cheat.jsonl"))
    assert [row["turn_return"] for row in rows] == [0, 1, 0]


def test_rows_that_are_invalid_or_outside_are_not_compared(tmp_path: Path) -> None:
    dump = attempts(turn_states=[["s"], ["s"], ["s"]], kind=["x", "y", "y"])
    dump[2] |= {"infra_failure": True, "turn_states": None}
    rows = redistribute(tmp_path, dump, per_turn=True, assignments=("scale=none",), eligible='kind == "x"')
    assert [(row["trajectory_id"], row["advantage"], row["n_in_state"]) for row in rows] == [
        ("a", 0.0, 1),
        ("b", 0.0, 0),
    ]


def test_segments_of_one_trajectory_are_one_walk(tmp_path: Path) -> None:
    later = {**WALKS[0], "segment": 1, "turn_states": ["t"]}
    dump = [later, {**WALKS[0], "segment": 0, "turn_states": ["s"]}, *WALKS[1:]]
    rows = redistribute(tmp_path, dump, per_turn=True, assignments=PLAIN)
    assert [(row["trajectory_id"], row["turn"], row["n_in_state"]) for row in rows[:2]] == [
        ("a", 1, 3),
        ("a", 2, 2),
    ]
    assert [row["advantage"] for row in rows] == pytest.approx([2 / 3, 5 / 6, 2 / 3, -4 / 3, -7 / 6])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "dump.jsonl: no record has turn_states"),
        ({"turn_states": [["s"], None, ["s"]]}, "dump.jsonl:2: turn_states is missing"),
        (
            {"turn_states": [["s"], [], ["s"]]},
            "dump.jsonl:2: turn_states is empty, expected one entry a turn",
        ),
        ({"turn_states": [["s"], 3, ["s"]]}, "dump.jsonl:2: turn_states is 3, expected a list"),
        (
            {"turn_states": [["s"], ["s", None], ["s"]]},
            "dump.jsonl:2: turn_states[1] is null, expected a state",
        ),
        (
            {"turn_states": [["s"]] * 3, "turn_rewards": [[1], [1, 2], [0]]},
            "dump.jsonl:2: turn_rewards has 2 entries, expected 1",
        ),
        (
            {"turn_states": [["s"]] * 3, "turn_rewards": [[1], ["x"], [0]]},
            'dump.jsonl:2: turn_rewards[0] is "x", expected a finite number',
        ),
        (
            {"turn_states": [["s"]] * 3, "turn_rewards": [[1], [-1e200], [0]]},
            "dump.jsonl:2: turn_rewards[0] is -1e+200, expected a finite number, at most 1e+100 in size",
        ),
        (
            {"turn_states": [["s"]] * 3, "turn_rewards": [[1], [1], None]},
            "dump.jsonl:3: turn_rewards is missing, and other records have it",
        ),
    ],
)
def test_turns_that_do_not_fit_are_placed(tmp_path: Path, columns: Record, message: str) -> None:
    with pytest.raises(InputError) as caught:
        redistribute(tmp_path, attempts(**columns))
    assert caught.value.message.endswith(message) or message in caught.value.message
    assert not (tmp_path / "out.jsonl").exists()


MASKS = [[0, 1, 1, 0, 1], [1, 1], [0, 1, 0, 1]]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("as_parquet", [False, True])
def test_tokens_of_the_policy_have_the_advantage_and_all_others_nothing(
    tmp_path: Path, suffix: str, as_parquet: bool
) -> None:
    rows = redistribute(
        tmp_path,
        attempts(mask=MASKS),
        suffix,
        as_parquet=as_parquet,
        method="gagar",
        cap="none",
        per_token="mask",
    )
    a, b, c = (row["advantage"] for row in rows)
    assert [a, b, c] == pytest.approx([5 / 9, 1 / 9, -2 / 3])
    assert [row["token_advantages"] for row in rows] == [[0, a, a, 0, a], [b, b], [0, c, 0, c]]


def test_tokens_of_a_turn_have_the_turns_advantage(tmp_path: Path) -> None:
    dump = [{**row, "mask": mask} for row, mask in zip(WALKS, MASKS, strict=True)]
    rows = redistribute(tmp_path, dump, per_token="mask", assignments=PLAIN)
    expected = [[0, 2 / 3, 2 / 3, 0, 5 / 6], [2 / 3, 2 / 3], [0, -4 / 3, 0, -7 / 6]]
    for row, tokens in zip(rows, expected, strict=True):
        assert row["token_advantages"] == pytest.approx(tokens)


def test_invalid_trajectory_has_no_token_advantages(tmp_path: Path) -> None:
    dump = attempts(mask=[*MASKS[:2], None])
    dump.append({**dump[2], "trajectory_id": "d", "infra_failure": True})
    dump[2]["mask"] = MASKS[2]
    rows = redistribute(tmp_path, dump, method="rloo", per_token="mask")
    assert rows[3]["token_advantages"] is None
    assert len(rows[2]["token_advantages"]) == 4


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([MASKS[0], None, MASKS[2]], "dump.jsonl:2: mask is null, expected a list"),
        ([MASKS[0], [1, 2], MASKS[2]], "dump.jsonl:2: mask holds 2, expected 0 and 1"),
        ([MASKS[0], [1, None], MASKS[2]], "dump.jsonl:2: mask holds null, expected 0 and 1"),
        (
            [MASKS[0], [1, 0, 1], MASKS[2]],
            "dump.jsonl:2: mask has 2 runs of generated tokens, expected one for each of 1 turn",
        ),
    ],
)
def test_masks_that_do_not_fit_are_placed(tmp_path: Path, mask: list[object], message: str) -> None:
    dump = [{**row, "mask": each} for row, each in zip(WALKS, mask, strict=True)]
    with pytest.raises(InputError) as caught:
        redistribute(tmp_path, dump, per_token="mask")
    assert message in caught.value.message
    assert not (tmp_path / "out.jsonl").exists()


def test_mask_that_no_record_has_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"dump.jsonl:1: maks is missing, expected a mask"):
        redistribute(tmp_path, attempts(mask=MASKS), method="rloo", per_token="maks")


ROLLOUTS = [
    {
        "group_index": 0,
        "index": n,
        "prompt": "fix",
        "response": "ok",
        "tokens": [1],
        "reward": n,
        "status": "completed",
    }
    | {"loss_mask": [0, 1, 1]}
    for n in range(2)
]


@pytest.mark.parametrize("column", ["loss_mask", "raw.loss_mask"])
def test_the_mask_of_a_native_row_is_found_by_its_own_name(tmp_path: Path, column: str) -> None:
    found = redistribute(tmp_path, ROLLOUTS, method="dr-grpo", per_token=column, rankings=None)
    assert [row["token_advantages"] for row in found] == [[0.0, -0.5, -0.5], [0.0, 0.5, 0.5]]


def test_the_hint_names_the_place_of_a_mask_in_a_converted_dump(tmp_path: Path) -> None:
    dump = attempts(raw=[json.dumps({"mask": [1, 1]})] * 3)
    with pytest.raises(InputError, match="mask is missing, expected a mask") as raised:
        redistribute(tmp_path, dump, method="dr-grpo", per_token="mask", rankings=None)
    assert raised.value.hint == "the dump has it as raw.mask"
    found = redistribute(tmp_path, dump, method="dr-grpo", per_token="raw.mask", rankings=None)
    assert [len(row["token_advantages"]) for row in found] == [2, 2, 2]


@pytest.mark.parametrize("as_parquet", [False, True])
def test_the_hint_names_the_place_of_a_factor_in_a_converted_dump(
    tmp_path: Path, *, as_parquet: bool
) -> None:
    dump = attempts(raw=[json.dumps({"cost": cost}) for cost in (0.5, 1, 1)])
    more = {"rankings": None, "per_token": None, "as_parquet": as_parquet}
    for flag in ("factor_column", "factor"):
        with pytest.raises((InputError, UsageError)) as raised:
            redistribute(tmp_path, dump, method="gagar", **{flag: "cost"}, **more)
        assert raised.value.hint == "the dump has it as raw.cost"
    found = redistribute(tmp_path, dump, method="gagar", factor_column="raw.cost", **more)
    assert found[0]["advantage"] < found[1]["advantage"]
