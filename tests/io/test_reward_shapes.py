"""Rewards that are shaped: a pass is never taken for a failure without a word."""

from typing import Any

import polars as pl
import pytest

from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump
from gagar_cli.io.following import FollowedDump
from gagar_cli.io.read_options import ReadOptions
from gagar_cli.io.reading_notes import note_of_shaped_rewards
from tests.io.formats.conftest import native as native
from tests.io.test_following_native import verl

SHAPED = (0.95, 0.5, -1.0, -1.2)
"""One or minus one, less what DAPO's reward manager subtracts for length."""


def passed(dump: Dump) -> list[bool]:
    return dump.index["passed"].to_list()


def told_of(dump: Dump, word: str) -> list[str]:
    return [note for note in dump.report.notes if word in note]


@pytest.mark.parametrize(("yes", "no"), [(True, False), (1, 0), (1.0, 0.0), ("True", "False")])
def test_the_verdict_of_verl_is_acc_where_nothing_else_is_one(native: Any, yes: object, no: object) -> None:
    rows = [verl(1, "a", n, score, acc=yes if score > 0 else no) for n, score in enumerate(SHAPED)]
    dump = native({"1.jsonl": rows})
    assert passed(dump) == [True, True, False, False]
    assert dump.index["reward"].to_list() == list(SHAPED)
    assert told_of(dump, "pass threshold") == []


@pytest.mark.parametrize("own", [{"resolved": False}, {"metadata": {"resolved": 0}}, {"resolved": None}])
def test_a_verdict_of_the_row_goes_before_acc(native: Any, own: dict[str, Any]) -> None:
    rows = [verl(1, "a", 0, 1.0, acc=True, **own), verl(1, "a", 1, 0.0, resolved=True, acc=False)]
    assert passed(native({"1.jsonl": rows})) == [False, True]


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        (1.0, [False, False, True, False]),
        (0.5, [True, False, True, False]),
        (-0.5, [True, True, True, False]),
    ],
)
def test_acc_that_is_a_score_passes_by_the_threshold(
    native: Any, threshold: float, expected: list[bool]
) -> None:
    """Of a function that returns a number the managers write that as acc, before they shape it."""
    rows = [verl(1, "a", n, acc - 0.25, acc=acc) for n, acc in enumerate((0.75, 0.25, 1.0, -1.0))]
    dump = native({"1.jsonl": rows}, pass_threshold=threshold)
    assert passed(dump) == expected
    n_between = sum(0 < acc < threshold for acc in (0.75, 0.25, 1.0))
    assert len(told_of(dump, "between 0 and the pass threshold")) == (n_between > 0)


def test_zero_is_no_pass_of_acc_whatever_the_threshold(native: Any) -> None:
    rows = [verl(1, "a", n, acc - 1.0, acc=acc) for n, acc in enumerate((1.0, 0.0))]
    assert passed(native({"1.jsonl": rows}, pass_threshold=-1.0)) == [True, False]


def test_a_joined_verdict_goes_before_acc(native: Any) -> None:
    """The managers write it for every function: a report that is joined to correct the reward would say nothing."""
    rows = [verl(1, "a", n, 0.8, acc=0.8, uid=f"s_{n}_0") for n in range(3)]
    told = [{"trajectory_id": f"s_{n}", "resolved": n == 0} for n in range(2)]
    dump = native({"1.jsonl": rows, "v.jsonl": told}, "1.jsonl", joins=("v.jsonl",))
    assert passed(dump) == [True, False, False]
    assert told_of(dump, "the one that stands") == []
    own = native({"2.jsonl": [rows[0] | {"resolved": False}]}, "2.jsonl", joins=("v.jsonl",))
    assert passed(own) == [False]
    assert len(told_of(own, "the one that stands")) == 1


def test_acc_of_another_kind_is_told(native: Any) -> None:
    dump = native({"1.jsonl": [verl(1, "a", 0, 1.0, acc="high"), verl(1, "a", 1, 0.0, acc="low")]})
    assert passed(dump) == [True, False]
    assert told_of(dump, 'acc of 2 rows are neither true nor false ("high"), and not used')


def canonical(*rewards: float | None, **more: Any) -> list[dict[str, Any]]:
    return [
        {"group_id": "g", "trajectory_id": f"t{n}", "reward": reward, **more}
        for n, reward in enumerate(rewards)
    ]


NOTE = (
    "3 rewards lie between 0 and the pass threshold 1.0 (0.9, 0.8): such attempts count as failed: "
    "set `--pass-threshold`, or map a verdict with `--field resolved=PATH`"
)


def test_rewards_between_nothing_and_a_pass_are_told(read_dump: Any) -> None:
    dump = read_dump(canonical(0.9, 0.8, 0.9, 0.0, -0.5, None, 1.0))
    assert told_of(dump, "pass threshold") == [NOTE]


@pytest.mark.parametrize(
    ("rewards", "options"),
    [
        ((0.0, 1.0), {}), ((-1.0, 1.0), {}), ((0, 2.5), {}), ((-0.5, 1.0), {}), ((None, 1.0), {}),
        ((0.5, 0.8), {"pass_threshold": 0.5}), ((0.5, 0.8), {"pass_threshold": -1.0}),
    ],
)  # fmt: skip
def test_rewards_that_are_plain_are_not_told(read_dump: Any, rewards: Any, options: dict[str, Any]) -> None:
    assert told_of(read_dump(canonical(*rewards), **options), "pass threshold") == []


def test_a_verdict_speaks_for_shaped_rewards(read_dump: Any) -> None:
    assert told_of(read_dump(canonical(0.9, 0.8, resolved=True)), "pass threshold") == []


def test_an_invalid_attempt_counts_as_nothing(read_dump: Any) -> None:
    assert told_of(read_dump(canonical(0.9, 0.8, infra_failure=True)), "pass threshold") == []


def test_the_largest_values_are_shown_and_more_are_hinted_at() -> None:
    [note] = note_of_shaped_rewards(pl.Series([0.1, 0.2, 0.3, 0.4, 1.0]), 0.5)
    assert "4 rewards lie between 0 and the pass threshold 0.5 (0.4, 0.3, 0.2, …)" in note


def test_a_followed_dump_tells_shaped_rewards_too(write_dump: Any) -> None:
    dump = FollowedDump([write_dump(canonical(0.9, 0.8, 0.9, 0.0))], ReadOptions())
    dump.look(is_last=True)
    assert [note for note in dump.notes if "pass threshold" in note] == [NOTE]
    dump.close()


def completions(tmp_path: Any, **parts: list[Any]) -> None:
    n_rows = len(next(iter(parts.values())))
    same = {"step": [1] * n_rows, "prompt": ["p"] * n_rows, "advantage": [0.0] * n_rows}
    texts = {"completion": [f"a{n}" for n in range(n_rows)]}
    pl.DataFrame(same | texts | parts).write_parquet(tmp_path / "completions_00001.parquet")


NAME = "completions_00001.parquet"
PARTS = {"tests": [1.0, 0.0, 0.0], "style": [0.5, 0.5, 0.25], "brevity": [0.5, 0.5, 0.0]}


def test_a_sum_of_parts_is_told_with_the_part_that_looks_like_a_verdict(native: Any, tmp_path: Any) -> None:
    completions(tmp_path, **PARTS)
    dump = native({}, NAME)
    assert passed(dump) == [True, True, False]
    [note] = told_of(dump, "is the sum of")
    assert note.endswith(
        "the reward is the sum of tests, style, brevity: an attempt passes where the sum reaches --pass-threshold, "
        "whichever part that comes from; tests alone is 0 or 1 in every row: "
        "`--field resolved=rewards.tests` makes it the verdict"
    )


@pytest.mark.parametrize("path", ["rewards.tests", "tests", "raw.tests"])
def test_a_part_of_trl_is_made_the_verdict(native: Any, tmp_path: Any, path: str) -> None:
    completions(tmp_path, **PARTS)
    dump = native({}, NAME, fields={"resolved": path})
    assert passed(dump) == [True, False, False]
    assert dump.index["reward"].to_list() == [2.0, 1.0, 0.25]
    assert all("--field" not in note for note in told_of(dump, "is the sum of"))


@pytest.mark.parametrize(
    "parts",
    [{"tests": [1.0, 0.0], "format": [0.0, 1.0]}, {"a": [0.5, 0.0], "b": [0.0, 0.25]}],
    ids=["two look like it", "none looks like it"],
)
def test_no_part_is_named_where_it_is_not_clear(native: Any, tmp_path: Any, parts: dict[str, Any]) -> None:
    completions(tmp_path, **parts)
    [note] = told_of(native({}, NAME), "is the sum of")
    assert "resolved=rewards.NAME` makes a part of 0 or 1 the verdict" in note
    assert "alone" not in note


def test_a_part_that_could_not_be_scored_is_not_evaluated_as_verdict(native: Any, tmp_path: Any) -> None:
    completions(tmp_path, tests=[1.0, float("nan")], style=[0.5, 0.5])
    dump = native({}, NAME, fields={"resolved": "rewards.tests"})
    assert dump.index["invalid_reason"].to_list() == [None, "not_evaluated"]


def test_a_part_that_is_graded_is_no_verdict(native: Any, tmp_path: Any) -> None:
    completions(tmp_path, **PARTS)
    with pytest.raises(InputError, match=r"resolved is 0\.5, expected true, false or null"):
        native({}, NAME, fields={"resolved": "rewards.style"})


ACC = [{"acc": True}, {}, {"acc": None}, {"acc": float("nan")}, {"acc": False}]


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (1, 2, 3, 4, 0)], ids=["acc first", "acc last"])
def test_a_row_without_acc_passes_by_its_score_whatever_others_have(
    native: Any, order: tuple[int, ...]
) -> None:
    scores = (0.9, 1.0, 0.0, 1.0, -1.0)
    rows = [verl(1, "a", n, scores[n], **ACC[n]) for n in order]
    dump = native({"1.jsonl": rows})
    by_score = dict(zip(order, passed(dump), strict=True))
    assert [by_score[n] for n in range(5)] == [True, True, False, True, False]
    assert not dump.index["invalid"].any()
    assert len(told_of(dump, "3 rows have no acc, which others have: by score")) == 1
    with_another = native({"1.jsonl": rows, "2.jsonl": [verl(2, "a", 0, 1.0)]})
    assert len(told_of(with_another, "1 of 2 files have no resolved")) == 1
    assert passed(with_another)[-1] is True


def test_the_dumps_own_column_of_that_name_infers_nothing(native: Any) -> None:
    rows = canonical(1.0, 1.0, resolved_from="x")
    dump = native({"c.jsonl": [rows[0] | {"resolved": True}, rows[1]]})
    assert dump.index["invalid"].to_list() == [False, True]


@pytest.mark.parametrize("is_joined", [False, True])
def test_what_is_inferred_counts_the_same_while_a_dump_grows(
    native: Any, tmp_path: Any, is_joined: bool
) -> None:
    rows = [verl(1, "a", n, score, uid=f"s_{n}_0", **acc) for n, (score, acc) in enumerate(zip((1.0, 0.5, 1.0, 0.0), ({}, {"acc": True}, {"acc": False}, {"acc": True}), strict=True))]  # fmt: skip
    joins = ("v.jsonl",) if is_joined else ()
    told = [{"trajectory_id": "s_3", "resolved": False}]
    whole = native({"1.jsonl": rows, "v.jsonl": told}, "1.jsonl", joins=joins)
    assert passed(whole) == [True, True, False, not is_joined]
    dump = FollowedDump(
        [str(tmp_path / "1.jsonl")], ReadOptions(joins=tuple(str(tmp_path / each) for each in joins))
    )
    dump.look()
    # A verdict that is inferred does not go before one that is yet to come.
    assert [dump.is_awaited(key) for key in dump._groups] == [is_joined]
    dump.look(is_last=True)
    [key] = dump._groups
    members = dump.members(key)
    assert [each.passed for each in members] == passed(whole)
    assert not any(each.invalid for each in members)
    dump.close()
