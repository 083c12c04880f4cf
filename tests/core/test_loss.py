import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from gagar_cli.core.loss import sequence_mean_loss, token_mean_loss

SHARED = Path(__file__).resolve().parents[2].parent / "shared"


def test_sequence_mean_of_centred_advantages_is_zero() -> None:
    assert sequence_mean_loss(np.array([0.75, 0.25, -0.5, -0.5])) == 0.0


def test_shrinking_passes_alone_raises_the_loss() -> None:
    # q = (1, .2): (1 − q̄) p (1 − p) = .4 · .25
    assert sequence_mean_loss(np.array([0.5, 0.1, -0.5, -0.5])) == pytest.approx(0.1)


def test_token_mean_weighs_by_length() -> None:
    # p (1 − p) (ℓ_F − ℓ_P) / ℓ̄ = .25 · 50 / 125
    assert token_mean_loss(
        np.array([0.5, 0.5, -0.5, -0.5]), np.array([100.0, 100, 150, 150])
    ) == pytest.approx(0.1)


def test_invalid_rows_count_nowhere() -> None:
    advantage = np.array([1.0, np.nan, -1.0])
    assert token_mean_loss(advantage, np.array([10.0, 99.0, 30.0])) == pytest.approx(0.5)
    assert sequence_mean_loss(np.array([np.nan])) == 0.0
    assert token_mean_loss(np.array([np.nan]), np.array([5.0])) == 0.0


@pytest.mark.shared
@pytest.mark.skipif(
    not (SHARED / "vectors").is_dir(), reason="the reference vectors are not beside this checkout"
)
def test_losses_of_the_reference_vectors() -> None:
    columns = {
        "initial": "initial",
        "capped_recentred": "capped_recentred",
        "bounded_affine": "bounded_affine",
    }
    for group in json.loads((SHARED / "vectors" / "vectors.json").read_text())["groups"]:
        exact = group["gagar_exact"]
        tokens = np.array([group["input"][i]["tokens"] for i in exact["valid_index"]], dtype=float)
        for loss, column in columns.items():
            expected = exact.get("loss_ratio1", {}).get(loss)
            if expected is None:
                continue
            advantage = np.array([float(Fraction(value)) for value in exact[column]])
            assert sequence_mean_loss(advantage) == pytest.approx(
                float(Fraction(expected["seq_mean"])), abs=1e-15
            )
            assert token_mean_loss(advantage, tokens) == pytest.approx(
                float(Fraction(expected["token_mean"])), abs=1e-15
            )
