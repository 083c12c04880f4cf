import json
from typing import Any

import numpy as np
import pytest

from gagar_cli.core.dump_statistics import PASS_RATE_BINS, Observed, describe, spread

NAN = float("nan")


def observed(group: list[int], passed: list[bool | None], **more: Any) -> Observed:
    """Passed is None where an attempt is invalid."""
    size = len(group)
    unknown = np.full(size, NAN)
    values: dict[str, Any] = {
        "group": np.array(group, dtype=np.int64),
        "is_valid": np.array([each is not None for each in passed], dtype=bool),
        "is_passed": np.array([bool(each) for each in passed], dtype=bool),
        "n_turns": unknown,
        "n_tokens": unknown,
        "is_truncated": unknown,
        "cost_usd": unknown,
        "tier": np.full(size, -1, dtype=np.int8),
        "score": unknown,
        "n_findings": np.zeros((size, 5), dtype=np.int64),
        "n_unproven": np.zeros(size, dtype=np.int64),
    }
    return Observed(**{**values, **{name: np.array(value) for name, value in more.items()}})


def test_outcomes_and_groups_are_counted() -> None:
    made = describe(observed([0, 0, 0, 1, 1, 2, 3], [True, True, False, True, True, None, False]))
    assert made.n_by_outcome == {"passed": 4, "failed": 2, "invalid": 1}
    assert made.pass_rate == pytest.approx(4 / 6)
    assert made.n_groups_by_kind == {
        "eligible": 1, "no_valid": 1, "singleton": 1, "all_pass": 1, "all_fail": 0, "lone_pass": 0,
    }  # fmt: skip
    assert made.passes_of_mixed == {"2": 1}


@pytest.mark.parametrize(
    ("n_passed", "size", "name"),
    [
        (0, 3, "0%"), (1, 20, "0-10%"), (1, 10, "10-20%"), (3, 10, "30-40%"), (7, 10, "70-80%"),
        (19, 20, "90-100%"), (9, 10, "90-100%"), (4, 4, "100%"),
    ],
)  # fmt: skip
def test_pass_rates_fall_into_tenths_by_whole_numbers(n_passed: int, size: int, name: str) -> None:
    made = describe(observed([0] * size, [number < n_passed for number in range(size)]))
    assert {key: count for key, count in made.pass_rates.items() if count} == {name: 1}
    assert tuple(made.pass_rates) == PASS_RATE_BINS


def test_group_without_a_valid_attempt_has_no_pass_rate() -> None:
    assert sum(describe(observed([0, 0], [None, None])).pass_rates.values()) == 0


def test_lengths_are_told_by_outcome_of_those_that_are_known() -> None:
    made = describe(
        observed(
            [0] * 4, [True, True, False, None],
            n_turns=[2.0, 4, 10, 3], n_tokens=[100.0, NAN, 50, NAN], is_truncated=[0.0, 1, NAN, 1],
        )
    )  # fmt: skip
    assert made.turns["passed"] == spread(np.array([2.0, 4.0])) == (2, 3.0, 3.0, 3.8, 4.0)
    assert (made.tokens["passed"].n, made.tokens["passed"].mean) == (1, 100.0)
    assert made.tokens["invalid"] == (0, None, None, None, None)
    assert made.truncated == {"passed": 0.5, "failed": None, "invalid": 1.0}


def test_tiers_scores_and_findings() -> None:
    made = describe(
        observed(
            [0] * 4, [True, True, True, False],
            tier=np.array([0, 2, 2, -1], dtype=np.int8), score=[5.0, 2.0, 3.0, NAN],
            n_findings=[[1, 0, 0, 0, 0], [2, 1, 0, 0, 0], [0] * 5, [0] * 5], n_unproven=[0, 1, 0, 0],
        )
    )  # fmt: skip
    assert made.tiers == {"T1": 1, "T2": 0, "T3": 2}
    assert (made.scores["T3"].mean, made.scores["T2"].n) == (2.5, 0)
    assert made.findings == {"patch": 3, "turn": 1, "test_output": 0, "repo": 0, "exec": 0}
    assert made.n_unproven == 1


def test_part_is_described_by_its_rows_alone() -> None:
    whole = observed([0, 0, 7, 7], [True, False, True, True], n_turns=[1.0, 2, 3, 4])
    made = describe(whole.part(np.array([False, False, True, True])))
    assert (made.n_groups, made.n_groups_by_kind["all_pass"], made.turns["passed"].mean) == (1, 1, 3.5)


def test_nothing_is_described_too() -> None:
    record = describe(observed([], [])).to_record()
    assert record["pass_rate"] is None
    json.dumps(record, allow_nan=False)


def test_costs_that_are_told_are_summed() -> None:
    made = describe(observed([0, 0, 0], [True, False, None], cost_usd=[0.1, NAN, 0.2]))
    assert (made.cost_usd, made.n_with_cost) == (pytest.approx(0.3), 2)
    untold = describe(observed([0], [True]))
    assert (untold.cost_usd, untold.n_with_cost) == (None, 0)
