"""A small policy trained on groups whose passing attempts differ in quality: what each way of paying them does.

A policy chooses one of ten approaches for each of sixteen tasks (a softmax over a table of logits). An approach passes
with its own probability, has a quality that only the grader sees, and a length. Every step samples a group of attempts a
task, makes advantages with gagar's own estimators, and takes one step of gradient descent on the token-mean loss.

    python examples/policy_gradient.py --output docs/policy_gradient.svg

It is a toy: it shows the signs of first-order effects, not what a language model does.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gagar_cli.core.batches import Batch
from gagar_cli.core.double_double import DoubleDouble
from gagar_cli.core.estimators import Options, estimate
from gagar_cli.core.factors import dense_places, quality_factors
from gagar_cli.core.loss import token_mean_loss
from gagar_cli.core.svg import LinePanel, Series, draw_svg
from gagar_cli.core.tier_tables import BUILT_IN

N_TASKS, GROUP_SIZE, LEARNING_RATE = 16, 16, 4.0
METHODS = {
    "dr-grpo": ("dr-grpo", "none"),
    "downweight": ("downweight", "none"),
    "gagar, no cap": ("gagar", "none"),
    "gagar, paper cap": ("gagar", "paper"),
    "gagar, bounded": ("gagar", "bounded"),
    "gagar, waterfill": ("gagar", "waterfill"),
    "gagar, temper": ("gagar", "temper"),
}
MEASURES = ("pass rate", "quality", "entropy", "length", "loss")


@dataclass(frozen=True)
class Approaches:
    """One entry an approach."""

    pass_probability: np.ndarray
    tier: np.ndarray
    rank: np.ndarray
    quality: np.ndarray
    length: np.ndarray


APPROACHES = Approaches(
    # Two good, four middling, two poor that pass most surely, two that mostly fail; failures are longest, as in practice.
    pass_probability=np.array([0.70, 0.65, 0.75, 0.70, 0.65, 0.60, 0.80, 0.75, 0.15, 0.10]),
    tier=np.array([0, 0, 1, 1, 1, 1, 2, 2, 1, 1]),
    rank=np.array([1, 2, 1, 2, 3, 4, 1, 1, 5, 5]),
    quality=np.array([5.0, 4.6, 4.1, 3.8, 3.5, 3.2, 1.8, 1.6, 3.0, 3.0]),
    length=np.array([40.0, 55.0, 45.0, 60.0, 50.0, 70.0, 35.0, 80.0, 90.0, 110.0]),
)


def train(name: str, seed: int, n_steps: int) -> np.ndarray:
    """(n_steps, n_measures) of the policy before each step, the loss being the step's own."""
    rng = np.random.default_rng(seed)
    logits = 0.1 * rng.standard_normal((N_TASKS, len(APPROACHES.tier)))
    difficulty = rng.uniform(0.6, 1.2, N_TASKS)
    history = np.zeros((n_steps, len(MEASURES)))
    for step in range(n_steps):
        policy = np.exp(logits - logits.max(axis=1, keepdims=True))
        policy /= policy.sum(axis=1, keepdims=True)
        chances = np.minimum(APPROACHES.pass_probability * difficulty[:, None], 0.98)
        drawn = rng.random((N_TASKS, GROUP_SIZE, 1)) > policy.cumsum(axis=1)[:, None, :]
        chosen = np.minimum(drawn.sum(axis=2), policy.shape[1] - 1)
        is_passed = rng.random(chosen.shape) < np.take_along_axis(chances, chosen, axis=1)
        lengths = APPROACHES.length[chosen]
        advantage = advantages(name, chosen, is_passed)
        history[step] = (
            (policy * chances).sum(axis=1).mean(),
            ((policy * chances) @ APPROACHES.quality / (policy * chances).sum(axis=1)).mean(),
            -(policy * np.log(policy)).sum(axis=1).mean(),
            (policy @ APPROACHES.length).mean(),
            token_mean_loss(advantage.ravel(), lengths.ravel()),
        )
        logits += LEARNING_RATE * gradient(policy, chosen, advantage * lengths / lengths.sum() * N_TASKS)
    return history


def advantages(name: str, chosen: np.ndarray, is_passed: np.ndarray) -> np.ndarray:
    """(n_tasks, group_size) by the named method, each group ranked as a perfect grader would."""
    method, cap = METHODS[name]
    group = np.repeat(np.arange(len(chosen)), chosen.shape[1]).reshape(chosen.shape)
    places = dense_places(
        group[is_passed], APPROACHES.tier[chosen][is_passed], APPROACHES.rank[chosen][is_passed]
    )
    placed = quality_factors(BUILT_IN["flash"], places)
    factors = DoubleDouble(np.ones(chosen.shape), np.zeros(chosen.shape))
    factors.high[is_passed], factors.low[is_passed] = placed.high, placed.low
    batch = Batch(
        rewards=is_passed.astype(float),
        is_valid=np.ones_like(is_passed),
        is_passed=is_passed,
        is_graded=np.ones(len(chosen), dtype=bool),
        factors=factors,
    )
    return estimate(method, batch, Options(cap=cap)).advantage


def gradient(policy: np.ndarray, chosen: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Σ weight ∇ log π(chosen) by task: the weight of each approach less the policy's share of all weight."""
    by_approach = np.zeros_like(policy)
    np.add.at(by_approach, (np.arange(len(chosen))[:, None], chosen), weight)
    return by_approach - policy * weight.sum(axis=1, keepdims=True)


def compare(n_seeds: int, n_steps: int) -> dict[str, np.ndarray]:
    """By method: (n_seeds, n_steps, n_measures)."""
    return {name: np.stack([train(name, seed, n_steps) for seed in range(n_seeds)]) for name in METHODS}


def summary(found: dict[str, np.ndarray]) -> list[list[str]]:
    """A row a method: each measure over the last tenth of the steps (the loss: over all), mean and standard error over seeds."""
    rows = []
    for name, history in found.items():
        last = max(1, history.shape[1] // 10)
        ends = history[:, -last:].mean(axis=1)
        ends[:, -1] = history[:, :, -1].mean(axis=1)
        errors = ends.std(axis=0, ddof=1) / np.sqrt(len(ends)) if len(ends) > 1 else np.zeros(len(MEASURES))
        cells = [f"{mean:.4f} ± {error:.4f}" for mean, error in zip(ends.mean(axis=0), errors, strict=True)]
        rows.append([name, *cells])
    return rows


def plot(found: dict[str, np.ndarray]) -> str:
    """One panel a measure, a line a method, with the standard error over seeds as its band."""
    panels = []
    for number, measure in enumerate(MEASURES):
        series = []
        for name, history in found.items():
            values = history[:, :, number]
            width = max(1, values.shape[1] // 40)
            values = (
                values[:, : values.shape[1] // width * width].reshape(len(values), -1, width).mean(axis=2)
            )
            mean = values.mean(axis=0)
            error = values.std(axis=0, ddof=min(1, len(values) - 1)) / np.sqrt(len(values))
            points = [(float(width * step), float(value)) for step, value in enumerate(mean)]
            band = list(zip((mean - error).tolist(), (mean + error).tolist(), strict=True))
            series.append(Series(name, points, band))
        panels.append(LinePanel(measure, "step", series))
    return draw_svg(panels)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--output", type=Path, help="an SVG file to write")
    options = parser.parse_args(arguments)
    found = compare(options.seeds, options.steps)
    rows = [["method", *MEASURES], *summary(found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if options.output:
        options.output.write_text(plot(found))


if __name__ == "__main__":
    main()
