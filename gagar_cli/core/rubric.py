"""The rubric: five dimensions scored 1 to 5, and the weighted score that orders candidates within a tier.

Weights are fractions, not floats: two candidates whose scores weigh the same are tied, whatever the order of the sum.
"""

from collections.abc import Mapping
from fractions import Fraction

MIN_SCORE = 1
MAX_SCORE = 5

WEIGHTS: Mapping[str, Fraction] = {
    "approach": Fraction(30, 100),
    "precision": Fraction(25, 100),
    "minimality": Fraction(20, 100),
    "side_effects": Fraction(15, 100),
    "consistency": Fraction(10, 100),
}
"""Dimension to weight, heaviest first; they sum to 1."""

DIMENSIONS = tuple(WEIGHTS)

DESCRIPTIONS: Mapping[str, str] = {
    "approach": "Does the change mend the cause of the problem, at the place where it belongs, or only its symptom?",
    "precision": "Is the new behaviour right for every input that the task covers, edge cases and errors among them?",
    "minimality": "Is everything in the patch needed for the task, without leftovers, rewrites or repeated code?",
    "side_effects": "Does what worked before still work the same: interfaces, defaults, data, speed, other callers?",
    "consistency": "Does the code follow the names, idioms, helpers and layout of the repository around it?",
}
"""What each dimension asks, in one sentence for people and prompts."""


def weighted_score(scores: Mapping[str, int]) -> Fraction:
    """The weighted mean of the five scores, exact.

    Raises:
        ValueError: a dimension is missing or unknown, or a score is no integer from 1 to 5.

    >>> float(weighted_score({"approach": 5, "precision": 4, "minimality": 4, "side_effects": 4, "consistency": 4}))
    4.3
    """
    check_scores(scores)
    return sum((weight * scores[name] for name, weight in WEIGHTS.items()), Fraction(0))


def check_scores(scores: Mapping[str, int]) -> None:
    """Refuse anything but the five dimensions with integers from 1 to 5.

    Raises:
        ValueError: what is wrong, naming the dimension.
    """
    for name in scores:
        if name not in WEIGHTS:
            raise ValueError(f"{name} is no dimension, expected {', '.join(DIMENSIONS)}")
    for name in DIMENSIONS:
        score = scores.get(name)
        if type(score) is not int or not MIN_SCORE <= score <= MAX_SCORE:
            raise ValueError(f"{name} is {score!r}, expected an integer from {MIN_SCORE} to {MAX_SCORE}")
