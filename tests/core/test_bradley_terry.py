import choix
import numpy as np
import pytest

from gagar_cli.core.bradley_terry import fit_strengths


def test_two_policies_have_the_log_odds_of_their_wins():
    wins = np.array([[0.0, 30.0], [10.0, 0.0]])
    strengths = fit_strengths(wins, np.zeros((2, 2)), prior=0.0)
    assert strengths.log_strengths[0] - strengths.log_strengths[1] == pytest.approx(np.log(3.0), abs=1e-6)
    assert strengths.log_tie == -np.inf


def test_without_ties_the_strengths_are_choixs():
    generator = np.random.default_rng(0)
    wins = generator.integers(1, 20, size=(5, 5)).astype(float)
    np.fill_diagonal(wins, 0.0)
    games = [(i, j) for i in range(5) for j in range(5) for _ in range(int(wins[i, j]))]
    expected = choix.opt_pairwise(5, games)
    found = fit_strengths(wins, np.zeros((5, 5)), prior=0.0).log_strengths
    assert found == pytest.approx(expected - expected.mean(), abs=1e-5)


def test_two_policies_with_ties_reproduce_the_observed_shares():
    # Davidson's model has as many parameters as two policies have shares: the fit is exact.
    wins, ties = np.array([[0.0, 50.0], [20.0, 0.0]]), np.array([[0.0, 30.0], [30.0, 0.0]])
    (first, second), log_tie = fit_strengths(wins, ties, prior=0.0)
    weights = np.exp([first, second, log_tie + (first + second) / 2])
    assert weights / weights.sum() == pytest.approx([0.5, 0.2, 0.3], abs=1e-6)


def test_ties_of_the_best_with_the_worst_bring_them_together():
    wins = np.array([[0.0, 20.0, 20.0], [5.0, 0.0, 20.0], [5.0, 5.0, 0.0]])
    ties = np.zeros((3, 3))
    plain = fit_strengths(wins, ties).log_strengths
    ties[0, 2] = ties[2, 0] = 60.0
    tied = fit_strengths(wins, ties).log_strengths
    assert list(np.argsort(-plain)) == [0, 1, 2] == list(np.argsort(-tied))
    assert np.ptp(tied) < 0.8 * np.ptp(plain)


def test_a_policy_that_won_everything_has_a_finite_strength():
    wins = np.array([[0.0, 9.0], [0.0, 0.0]])
    log_strengths = fit_strengths(wins, np.zeros((2, 2))).log_strengths
    assert log_strengths[0] - log_strengths[1] == pytest.approx(np.log(9.05 / 0.05), abs=1e-4)


@pytest.mark.parametrize(
    ("wins", "ties", "message"),
    [
        (np.zeros((2, 3)), np.zeros((2, 3)), "two equal squares"),
        (-np.ones((2, 2)), np.zeros((2, 2)), "negative"),
        (np.ones((2, 2)), np.array([[0.0, 1.0], [2.0, 0.0]]), "not symmetric"),
        (np.zeros((2, 2)), np.zeros((2, 2)), "never met"),
    ],
    ids=["shape", "negative", "asymmetric", "apart"],
)
def test_bad_tables_are_refused(wins, ties, message):
    with pytest.raises(ValueError, match=message):
        fit_strengths(wins, ties)
