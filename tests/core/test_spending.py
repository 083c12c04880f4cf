import pytest

from gagar_cli.core.spending import Budget, Prices, Spending, spending_of


def test_cached_tokens_are_part_of_the_input_and_cost_their_own_price():
    spent = Spending(n_input_tokens=1_000_000, n_cached_tokens=250_000, n_output_tokens=500_000)
    assert spent.cost(Prices(4.0, 10.0, 0.4)) == 0.75 * 4 + 0.25 * 0.4 + 0.5 * 10
    assert spent.cost(Prices(4.0, 10.0)) == 4 + 5


def test_more_cached_than_input_never_makes_a_negative_price():
    assert Spending(n_input_tokens=10, n_cached_tokens=99).cost(Prices(1e6, 0, 2e6)) == 20


@pytest.mark.parametrize(
    ("grader", "expected"),
    [
        ({}, Spending()),
        ({"calls": 3, "checks": 2, "seconds": 1.5}, Spending(3, 2, seconds=1.5)),
        ({"tokens": {"in": 7, "cached": 2, "out": 1}}, Spending(0, 0, 7, 2, 1)),
        ({"calls": "3", "tokens": [1], "seconds": True}, Spending()),
        ({"tokens": {"in": -5, "out": 2.5}}, Spending()),
        ({"calls": 10**400, "seconds": 10**400, "tokens": {"in": 2**63}}, Spending()),
        ({"seconds": float("inf")}, Spending()),
        ({"seconds": float("nan")}, Spending()),
    ],
    ids=["nothing", "calls", "tokens", "foreign types", "no counts", "too many", "endless", "no number"],
)
def test_what_a_ranking_says_it_took_is_read_whoever_wrote_it(grader, expected):
    assert spending_of(grader) == expected


def test_spendings_add_up():
    total = Spending(1, 2, 3, 4, 5, 6.0) + Spending(10, 20, 30, 40, 50, 60.0)
    assert total == Spending(11, 22, 33, 44, 55, 66.0)


def test_a_budget_is_used_up_when_its_limit_is_reached():
    spent = Spending(n_input_tokens=60, n_output_tokens=40)
    assert Budget(max_tokens=101).exceeded_by(spent, None) is None
    assert Budget(max_tokens=100).exceeded_by(spent, None) == "--max-tokens-total 100 is used up (100 tokens)"
    assert Budget(max_cost=2.0).exceeded_by(spent, Prices(2e4, 2e4)) == "--max-cost 2 is used up (2)"
    assert Budget(max_cost=2.1).exceeded_by(spent, Prices(2e4, 2e4)) is None
