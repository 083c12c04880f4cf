"""Strengths of more than two policies from pairwise results with ties: the model of Davidson (1970).

P(i beats j) = πᵢ / Z, P(tie) = ν √(πᵢ πⱼ) / Z with Z = πᵢ + πⱼ + ν √(πᵢ πⱼ). With ν = 0 it is Bradley and Terry (1952).
The likelihood is concave in (log π, log ν), so one maximum is found from anywhere. A policy that won or lost every
comparison has no finite strength: `prior` adds that many tied games between every two policies that met.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Strengths(NamedTuple):
    """What the model found."""

    log_strengths: Floats
    """(n_policies,), mean 0: a difference of log 2 means odds of 2 : 1 among decided games."""
    log_tie: float
    """log ν; −inf where there was no tie."""


def fit_strengths(wins: Floats, ties: Floats, *, prior: float = 0.1) -> Strengths:
    """The most likely strengths.

    Args:
        wins: (n, n), how often the row's policy beat the column's; fractions are weights.
        ties: (n, n), symmetric, how often they tied.
        prior: half a game won by each side, this many times, for every pair that met at least once.

    Raises:
        ValueError: shapes differ, a count is negative, `ties` is not symmetric, or some policies never met the others.
    """
    from scipy.optimize import minimize

    wins, ties = np.asarray(wins, dtype=np.float64), np.asarray(ties, dtype=np.float64)
    _check(wins, ties)
    met = (wins + wins.T + ties) > 0
    np.fill_diagonal(met, val=False)
    if not _is_connected(met):
        raise ValueError("some policies never met the others, directly or through a third")
    padded = wins + prior / 2 * met
    has_ties = bool(ties.any())
    n_policies = len(wins)
    upper = np.triu_indices(n_policies, 1)

    def loss(parameters: Floats) -> tuple[float, Floats]:
        strengths = np.append(parameters[: n_policies - 1], 0.0)
        log_tie = parameters[n_policies - 1] if has_ties else -np.inf
        first, second = strengths[upper[0]], strengths[upper[1]]
        tied = log_tie + (first + second) / 2
        log_total = np.logaddexp(np.logaddexp(first, second), tied)
        n_first, n_second, n_tied = padded[upper], padded.T[upper], ties[upper]
        n_games = n_first + n_second + n_tied
        drawn = n_tied * tied if has_ties else 0.0
        value = float(np.sum(n_games * log_total - n_first * first - n_second * second - drawn))
        share_tied = np.exp(tied - log_total)
        slope = np.zeros(n_policies)
        np.add.at(
            slope, upper[0], n_games * (np.exp(first - log_total) + share_tied / 2) - n_first - n_tied / 2
        )
        np.add.at(
            slope, upper[1], n_games * (np.exp(second - log_total) + share_tied / 2) - n_second - n_tied / 2
        )
        slope_tie = [float(np.sum(n_games * share_tied - n_tied))] if has_ties else []
        return value, np.append(slope[:-1], slope_tie)

    start = np.zeros(n_policies - 1 + has_ties)
    found = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 1000})
    strengths = np.append(found.x[: n_policies - 1], 0.0)
    return Strengths(strengths - strengths.mean(), float(found.x[-1]) if has_ties else -np.inf)


def _check(wins: Floats, ties: Floats) -> None:
    if wins.ndim != 2 or wins.shape[0] != wins.shape[1] or wins.shape != ties.shape:
        raise ValueError(f"wins is {wins.shape} and ties {ties.shape}, expected two equal squares")
    if (wins < 0).any() or (ties < 0).any():
        raise ValueError("a count is negative")
    if not np.array_equal(ties, ties.T):
        raise ValueError("ties is not symmetric")


def _is_connected(met: npt.NDArray[np.bool_]) -> bool:
    reached = {0}
    waiting = [0]
    while waiting:
        for other in np.flatnonzero(met[waiting.pop()]).tolist():
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return len(reached) == len(met)
