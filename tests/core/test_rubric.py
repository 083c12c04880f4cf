from fractions import Fraction

import pytest

from gagar_cli.core.rubric import DESCRIPTIONS, DIMENSIONS, WEIGHTS, weighted_score


def scores(*values: int) -> dict[str, int]:
    return dict(zip(DIMENSIONS, values, strict=True))


def test_weights_sum_to_one_and_every_dimension_is_described() -> None:
    assert sum(WEIGHTS.values()) == 1
    assert tuple(DESCRIPTIONS) == DIMENSIONS


@pytest.mark.parametrize(
    ("values", "expected"),
    [((5, 5, 5, 5, 5), Fraction(5)), ((1, 1, 1, 1, 1), Fraction(1)), ((5, 4, 3, 2, 1), Fraction(35, 10))],
)
def test_weighted_score_is_the_weighted_mean(values: tuple[int, ...], expected: Fraction) -> None:
    # 5·.30 + 4·.25 + 3·.20 + 2·.15 + 1·.10 = 3.5
    assert weighted_score(scores(*values)) == expected


def test_scores_that_weigh_the_same_are_exactly_tied() -> None:
    # .25 + .15 up and .30 + .10 down: the float sums differ in the last bit for many such pairs.
    assert weighted_score(scores(3, 4, 3, 4, 3)) == weighted_score(scores(4, 3, 3, 3, 4))


@pytest.mark.parametrize("value", [0, 6, 4.0, True, "4", None])
def test_score_that_is_no_integer_from_1_to_5_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="precision is"):
        weighted_score({**scores(4, 4, 4, 4, 4), "precision": value})  # type: ignore[dict-item]


def test_missing_and_unknown_dimensions_are_named() -> None:
    with pytest.raises(ValueError, match="style is no dimension"):
        weighted_score({**scores(4, 4, 4, 4, 4), "style": 4})
    with pytest.raises(ValueError, match="approach is None"):
        weighted_score({"precision": 4})
