"""The expected policy loss at importance ratio 1: what a set of advantages adds before any learning happened.

Sum-preserving redistribution keeps the sequence mean where it was; weights that only shrink passes do not (METHODS 4).
"""

import numpy as np

from gagar_cli.core.double_double import FloatArray


def sequence_mean_loss(advantage: FloatArray) -> float:
    """−mean of the advantages, each trajectory counting once; NaN rows (invalid) are left out, 0 for none.

    >>> sequence_mean_loss(np.array([0.75, 0.25, -0.5, -0.5]))
    0.0
    """
    is_valid = ~np.isnan(advantage)
    valid = advantage if is_valid.all() else advantage[is_valid]
    return 0.0 - float(np.sum(valid)) / valid.size if valid.size else 0.0


def token_mean_loss(advantage: FloatArray, n_tokens: FloatArray) -> float:
    """−mean of the advantages, each trained token counting once; NaN rows (invalid) are left out, 0 for none.

    >>> token_mean_loss(np.array([0.5, 0.5, -0.5, -0.5]), np.array([100.0, 100.0, 150.0, 150.0]))
    0.1
    """
    is_valid = ~np.isnan(advantage)
    if not is_valid.all():
        advantage, n_tokens = advantage[is_valid], n_tokens[is_valid]
    total = float(np.sum(n_tokens))
    return 0.0 - float(np.sum(advantage * n_tokens)) / total if total else 0.0
