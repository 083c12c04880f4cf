"""Rewards and verdicts of every kind, as each adapter meets them: read as what they say, or refused with place and value."""

from typing import Any

import polars as pl
import pytest

from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump
from gagar_cli.io.formats.values import (
    as_written,
    flag_of,
    integer_of,
    named_rewards,
    reward_of,
    text_of,
    total,
)
from tests.io.formats.test_fuzz_fields import AREAL, HARBOR, NEMO_RL, OPENHANDS, R2E, TERMINAL_BENCH
from tests.io.test_following_native import nemo, rllm, skyrl, trace, verifiers, verl

SLIME: dict[str, Any] = {
    "group_index": 0, "index": 0, "prompt": "q", "response": "a", "tokens": [1], "status": "completed", "reward": 1.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1.0), (0.5, 0.5), (True, 1.0), (False, 0.0), ([1.0], 1.0), ([True], 1.0), (None, None), ([None], None)],
)  # fmt: skip
def test_a_reward_is_a_number_or_a_flag_alone_or_in_a_list(value: object, expected: float | None) -> None:
    found = reward_of(value)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize("value", ["1.0", "nan", "", [], [1.0, 0.0], ["1"], {}, {"a": 1}])
def test_any_other_reward_is_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"^score is .*, expected a number$"):
        reward_of(value, "score")


@pytest.mark.parametrize(
    ("value", "expected"), [(True, True), (False, False), (1, True), (0, False), (1.0, True), (None, None)]
)
def test_a_verdict_is_a_flag_or_one_or_zero(value: object, expected: bool | None) -> None:
    assert flag_of(value, "resolved") is expected


@pytest.mark.parametrize("value", ["True", "", 2, 0.5, [], {}])
def test_any_other_verdict_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="expected true, false or null"):
        flag_of(value, "resolved")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.0", 1.0), ("-5e-1", -0.5), ("True", True), ("False", False), ("nan", None), ("tensor(0.)", 0.0),
        ("tensor(0.5, device='cuda:0')", 0.5), ("tensor(True)", True), ("high", "high"), ("", ""), (".", "."),
        ("tensor([1., 2.])", "tensor([1., 2.])"), ("9" * 200, "9" * 200), (None, None), (0.5, 0.5), ([1], [1]),
    ],
)  # fmt: skip
def test_text_that_stands_for_a_number_or_a_flag(text: object, expected: object) -> None:
    found = as_written(text)
    assert (found, type(found)) == (expected, type(expected))


def test_of_named_values_the_numbers_count_and_flags_where_there_are_none() -> None:
    assert named_rewards({"a": 1, "b": True, "c": "x", "d": 0.5}) == {"a": 1.0, "d": 0.5}
    assert named_rewards({"a": True, "b": False, "c": None}) == {"a": 1.0, "b": 0.0}
    assert named_rewards({"c": None, "d": [1.0]}) == {}


def test_numbers_no_float_can_hold_are_kept_to_be_refused_later() -> None:
    assert reward_of(10**400) == 10**400
    assert total([10**400, 1.0]) == 10**400
    assert total([]) is None


def test_texts_and_integers_of_joined_rows() -> None:
    assert (text_of("", "p"), text_of(None, "p")) == ("", None)
    assert (integer_of("12", "n"), integer_of(0, "n"), integer_of(None, "n")) == (12, 0, None)
    for read, value in (
        (text_of, 1),
        (text_of, []),
        (integer_of, "1.5"),
        (integer_of, True),
        (integer_of, 1.0),
    ):
        with pytest.raises(InputError, match=r"^x is "):
            read(value, "x")


def rewarded(name: str, value: object) -> tuple[str, Any]:
    """A file of each format that has a reward, with that one."""
    files: dict[str, tuple[str, Any]] = {
        "verl": ("1.jsonl", [verl(1, "a", 0, value)]),  # type: ignore[arg-type]
        "areal": ("7.jsonl", [AREAL | {"reward": value}]),
        "r2e-gym": ("e.jsonl", [R2E | {"reward": value}]),
        "nemo-rl": ("train_data_step3.jsonl", [NEMO_RL | {"rewards": [value]}]),
        "slime": ("s.jsonl", [SLIME | {"reward": value}]),
        "slime-part": ("s.jsonl", [SLIME | {"reward": {"acc": value}}]),
        "skyrl-eval": ("d.jsonl", [skyrl("a", 0, 1.0) | {"score": value}]),
        "skyrl-tokens": ("d.jsonl", [skyrl("a", 0, 1.0) | {"score": [0.0, value]}]),
        "verifiers": ("results.jsonl", [verifiers(0, value)]),  # type: ignore[arg-type]
        "verifiers-1": ("traces.jsonl", [trace("g", 0, value)]),  # type: ignore[arg-type]
        "verifiers-1-score": ("traces.jsonl", [trace("g", 0, {"score": value, "weight": 1.0})]),  # type: ignore[arg-type]
        "nemo-gym": ("r.jsonl", [nemo(0, 0, value)]),  # type: ignore[arg-type]
        "harbor": ("result.json", HARBOR | {"verifier_result": {"rewards": {"reward": value}}}),
        "harbor-0": ("result.json", HARBOR | {"verifier_result": {"reward": value}}),
        "rllm": ("e.json", rllm("g", 0, correct=True) | {"is_correct": None, "trajectories": [{"reward": value}]}),
    }  # fmt: skip
    return files[name]


REWARDED = (
    "verl", "areal", "r2e-gym", "nemo-rl", "slime", "slime-part", "skyrl-eval", "skyrl-tokens", "verifiers", "verifiers-1",
    "verifiers-1-score", "nemo-gym", "harbor", "harbor-0",
)  # fmt: skip


def read(native: Any, content: tuple[str, Any], **options: Any) -> Dump:
    dump: Dump = native({content[0]: content[1]}, **options)
    return dump


@pytest.mark.parametrize("name", REWARDED)
@pytest.mark.parametrize(
    ("value", "expected"), [(True, 1.0), (False, 0.0), (1, 1.0), (0.25, 0.25), (None, None)], ids=str
)
def test_every_adapter_reads_numbers_and_flags(
    native: Any, name: str, value: object, expected: float | None
) -> None:
    dump = read(native, rewarded(name, value))
    # A trace has a row for each of its branches.
    rows = set(dump.index.select("reward", "passed", "invalid").rows())
    assert rows == {(expected, expected == 1.0, expected is None)}


NO_REWARDS: tuple[object, ...] = ("1.0", "high", {"a": "b"}, [1.0, 2.0])
OF_THE_FORMAT = (("skyrl-eval", [1.0, 2.0]), ("verifiers-1", {"a": "b"}))
"""A score a token, and a reward without a score: these two are read."""


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name in REWARDED for value in NO_REWARDS if (name, value) not in OF_THE_FORMAT],
    ids=str,
)
def test_no_adapter_drops_a_reward_that_it_cannot_read(native: Any, name: str, value: object) -> None:
    with pytest.raises(InputError, match=r":1: .*(reward|score|rewards).* is .*, expected a number"):
        read(native, rewarded(name, value))


@pytest.mark.parametrize(("text", "expected"), [("1.0", 1.0), ("tensor(0.5)", 0.5), ("True", 1.0)])
def test_rllm_writes_the_text_of_what_json_does_not_know(native: Any, text: str, expected: float) -> None:
    episode = rllm("g", 0, correct=True) | {
        "is_correct": "True",
        "trajectories": [{"reward": text, "steps": []}],
    }
    dump = read(native, ("e.json", episode))
    assert dump.index.select("reward", "passed").rows() == [(expected, True)]


@pytest.mark.parametrize("more", [{"is_correct": "yes"}, {"trajectories": [{"reward": "high"}]}])
def test_rllm_refuses_what_is_no_verdict_and_no_reward(native: Any, more: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"e\.json:1: .* is .*, expected"):
        read(native, ("e.json", rllm("g", 0, correct=True) | more))


def judged(name: str, value: object) -> tuple[str, Any]:
    """A file of each format that has a verdict, with that one."""
    files: dict[str, tuple[str, Any]] = {
        "swe-smith": ("t.jsonl", [{"instance_id": "i", "messages": [], "traj_id": "t", "resolved": value}]),
        "swe-gym": (
            "t.jsonl",
            [{"instance_id": "i", "messages": [], "test_result": {}, "run_id": "r", "resolved": value}],
        ),
        "nebius-swe-agent": (
            "t.jsonl",
            [{"instance_id": "i", "trajectory": [], "generated_patch": "p", "target": value}],
        ),
        "nebius-openhands": (
            "t.jsonl",
            [{"instance_id": "i", "trajectory": [], "model_patch": "p", "resolved": value}],
        ),
        "terminal-bench": ("results.json", TERMINAL_BENCH | {"is_resolved": value}),
        "openhands": ("output.jsonl", [OPENHANDS | {"report": {"resolved": value}}]),
        "nemo-gym": ("r.jsonl", [nemo(0, 0, 1.0) | {"resolved": value}]),
        "slime": ("s.jsonl", [SLIME | {"metadata": {"grading_solved": value}}]),
        "rllm": ("e.json", rllm("g", 0, correct=True) | {"is_correct": value}),
    }
    return files[name]


JUDGED = (
    "swe-smith", "swe-gym", "nebius-swe-agent", "nebius-openhands", "terminal-bench", "openhands", "nemo-gym", "slime",
    "rllm",
)  # fmt: skip


@pytest.mark.parametrize("name", JUDGED)
@pytest.mark.parametrize(("value", "expected"), [(True, True), (1, True), (0, False), (None, None)], ids=str)
def test_every_adapter_reads_verdicts(native: Any, name: str, value: object, expected: bool | None) -> None:
    dump = read(native, judged(name, value))
    assert dump.index.select("passed", "invalid").rows() == [(bool(expected), expected is None)]


@pytest.mark.parametrize("name", JUDGED)
@pytest.mark.parametrize("value", ["yes", 2, [True]], ids=str)
def test_no_adapter_drops_a_verdict_that_it_cannot_read(native: Any, name: str, value: object) -> None:
    with pytest.raises(InputError, match=r":1: \S+ is .*, expected true, false or null"):
        read(native, judged(name, value))


@pytest.mark.parametrize(
    ("columns", "reward", "rewards"),
    [
        ({"correct": [True, False]}, [1.0, 0.0], [{"correct": 1.0}, {"correct": 0.0}]),
        ({"correct": [True, False], "score": [0.5, 0.25]}, [0.5, 0.25], [{"score": 0.5}, {"score": 0.25}]),
        ({"score": [float("nan"), 1.0]}, [None, 1.0], None),
    ],
    ids=["flags", "flags beside numbers", "nan"],
)
def test_flags_are_rewards_of_trl_where_there_are_no_numbers(
    native: Any, tmp_path: Any, columns: dict[str, Any], reward: list[float | None], rewards: object
) -> None:
    table = {"step": [1, 1], "prompt": ["p", "p"], "completion": ["a", "b"], "advantage": [0.5, -0.5]}
    pl.DataFrame(table | columns).write_parquet(tmp_path / "completions_00001.parquet")
    dump = native({}, "completions_00001.parquet")
    assert dump.index["reward"].to_list() == reward
    if rewards is not None:
        assert [record["rewards"] for record in dump.iter_records()] == rewards


def test_a_text_under_the_name_of_the_reward_is_refused_by_trl(native: Any, tmp_path: Any) -> None:
    table = {"step": [1], "prompt": ["p"], "completion": ["a"], "advantage": [0.5], "reward": ["high"]}
    pl.DataFrame(table).write_parquet(tmp_path / "completions_00001.parquet")
    with pytest.raises(InputError, match=r'\.parquet:1: reward is "high", expected a number'):
        native({}, "completions_00001.parquet")


def test_flags_and_counts_of_plain_rows_are_read_as_written_and_others_are_told(native: Any) -> None:
    rows = [
        verl(1, "a", 0, 0.0, resolved=1, n_turns="3", infra_failure=0),
        verl(1, "a", 1, 1.0, resolved="False", n_turns=4.0),
        verl(1, "a", 2, 1.0, resolved="True", n_turns="many", mask_sample="1"),
        verl(1, "a", 3, 1.0, resolved="yes", infra_failure=2),
    ]
    dump = native({"1.jsonl": rows})
    assert dump.index.select("passed", "invalid_reason", "n_turns").rows() == [
        (True, None, 3), (False, None, 4), (False, "mask_sample", None), (False, "not_evaluated", None),
    ]  # fmt: skip
    notes = [note.partition("1.jsonl: ")[2] for note in dump.report.notes if "neither" in note]
    assert notes == [
        'resolved of 1 row is neither true nor false ("yes"), and not used',
        "infra_failure of 1 row is neither true nor false (2), and not used",
    ]


def test_harbor_tells_rewards_of_which_none_is_the_reward(native: Any) -> None:
    dump = native({"result.json": HARBOR | {"verifier_result": {"rewards": {"correct": 1.0, "style": 0.0}}}})
    assert dump.index["invalid_reason"].to_list() == ["not_evaluated"]
    assert any(
        note.endswith("not evaluated: rewards correct, style, and none is `reward`")
        for note in dump.report.notes
    )
    assert next(dump.iter_records())["rewards"] == {"correct": 1.0, "style": 0.0}
