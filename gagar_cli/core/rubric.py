"""The rubric: what is scored, what each score weighs, and the rules that make tiers of scores.

`PAPER` is the built-in one, the paper's five dimensions; a team's own is read by `io/rubrics.py`. Scores are integers
from 1 to 5 in every rubric. Weights are fractions, not floats: two candidates whose scores weigh the same are tied,
whatever the order of the sum.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

MIN_SCORE = 1
MAX_SCORE = 5

Limits = tuple[tuple[str, int], ...]
"""Dimensions with the highest score at which each still meets a condition; all must meet it."""


@dataclass(frozen=True)
class Rubric:
    """What a grader scores, and how scores and flags become tiers."""

    name: str
    dimensions: tuple[str, ...]
    """Heaviest first is the custom, not a rule: prompts and tables keep this order."""
    shares: tuple[Fraction, ...]
    """The weight of each dimension; they sum to 1."""
    questions: tuple[str, ...]
    """What each dimension asks, in one sentence for people and prompts."""
    t3_flags: tuple[str, ...] = ("out_of_scope", "test_specific")
    """A confirmed one of these is T3 whatever the scores."""
    t3_scores: tuple[Limits, ...] = ((("approach", 1),), (("minimality", 2), ("side_effects", 2)))
    """Any one of these conditions is T3."""
    t1_barring_flags: tuple[str, ...] = ("serious_process_issue", "regression")
    """A confirmed one of these keeps a candidate out of T1."""
    t1_min_score: int = 4
    """T1 has at least this in every dimension."""

    @cached_property
    def weights(self) -> Mapping[str, Fraction]:
        """Dimension to weight."""
        return dict(zip(self.dimensions, self.shares, strict=True))

    @cached_property
    def digest(self) -> str:
        """Twelve hex digits that change with anything in it but the name."""
        content = [
            self.dimensions,
            [str(share) for share in self.shares],
            self.questions,
            [sorted(self.t3_flags), sorted(map(sorted, self.t3_scores))],
            [sorted(self.t1_barring_flags), self.t1_min_score],
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]


PAPER = Rubric(
    name="paper",
    dimensions=("approach", "precision", "minimality", "side_effects", "consistency"),
    shares=tuple(Fraction(percent, 100) for percent in (30, 25, 20, 15, 10)),
    questions=(
        "Does the change mend the cause of the problem, at the place where it belongs, or only its symptom?",
        "Is the new behaviour right for every input that the task covers, edge cases and errors among them?",
        "Is everything in the patch needed for the task, without leftovers, rewrites or repeated code?",
        "Does what worked before still work the same: interfaces, defaults, data, speed, other callers?",
        "Does the code follow the names, idioms, helpers and layout of the repository around it?",
    ),
)
"""The built-in rubric."""

DIMENSIONS = PAPER.dimensions
WEIGHTS: Mapping[str, Fraction] = PAPER.weights
DESCRIPTIONS: Mapping[str, str] = dict(zip(DIMENSIONS, PAPER.questions, strict=True))


def weighted_score(scores: Mapping[str, int], rubric: Rubric = PAPER) -> Fraction:
    """The weighted mean of the scores, exact.

    Raises:
        ValueError: a dimension is missing or unknown, or a score is no integer from 1 to 5.

    >>> float(weighted_score({"approach": 5, "precision": 4, "minimality": 4, "side_effects": 4, "consistency": 4}))
    4.3
    """
    check_scores(scores, rubric)
    return sum((weight * scores[name] for name, weight in rubric.weights.items()), Fraction(0))


def check_scores(scores: Mapping[str, int], rubric: Rubric = PAPER) -> None:
    """Refuse anything but the rubric's dimensions with integers from 1 to 5.

    Raises:
        ValueError: what is wrong, naming the dimension.
    """
    for name in scores:
        if name not in rubric.dimensions:
            raise ValueError(f"{name} is no dimension, expected {', '.join(rubric.dimensions)}")
    for name in rubric.dimensions:
        score = scores.get(name)
        if type(score) is not int or not MIN_SCORE <= score <= MAX_SCORE:
            raise ValueError(f"{name} is {score!r}, expected an integer from {MIN_SCORE} to {MAX_SCORE}")
