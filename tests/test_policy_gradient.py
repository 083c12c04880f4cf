"""The policy-gradient example at a tiny size: its mechanics, and the one sign that follows from arithmetic."""

import importlib.util
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "policy_gradient.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("policy_gradient", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_gradient_is_that_of_the_log_probabilities(example: ModuleType) -> None:
    """Against finite differences of Σ weight log π(chosen)."""
    rng = np.random.default_rng(0)
    logits, chosen = rng.standard_normal((2, 4)), np.array([[0, 3, 3], [1, 1, 2]])
    weight = rng.standard_normal((2, 3))

    def objective(values: np.ndarray) -> float:
        log_policy = values - np.log(np.exp(values).sum(axis=1, keepdims=True))
        return float((weight * np.take_along_axis(log_policy, chosen, axis=1)).sum())

    policy = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    made = example.gradient(policy, chosen, weight)
    for place in np.ndindex(2, 4):
        step = np.zeros((2, 4))
        step[place] = 1e-6
        slope = (objective(logits + step) - objective(logits - step)) / 2e-6
        assert made[place] == pytest.approx(slope, abs=1e-7)


def test_first_loss_of_downweighting_alone_is_the_highest(example: ModuleType) -> None:
    """Same seed, same first groups: only what the passes get differs (METHODS 4)."""
    first = {name: example.train(name, 0, 1)[0, -1] for name in example.METHODS}
    assert max(first, key=lambda name: first[name]) == "downweight"
    assert first["gagar, no cap"] == pytest.approx(first["gagar, bounded"], abs=0.01)


def test_paying_by_quality_raises_quality_and_is_reproducible(
    example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "plot.svg"
    example.main(["--seeds", "2", "--steps", "24", "--output", str(output)])
    printed = capsys.readouterr().out.splitlines()
    quality = {line[:18].strip(): float(line[18:].split()[3]) for line in printed[1:]}
    assert set(quality) == set(example.METHODS)
    assert quality["gagar, bounded"] > quality["dr-grpo"] + 0.5
    assert len(list(ElementTree.parse(output).iter("{http://www.w3.org/2000/svg}polyline"))) == 5 * len(
        quality
    )
    again = example.train("gagar, bounded", 1, 5)
    assert again.tolist() == example.train("gagar, bounded", 1, 5).tolist()
