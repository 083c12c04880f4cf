import pytest

from gagar_cli.core.gates import check_gate, parse_gate
from gagar_cli.errors import UsageError

SUMMARY = {
    "win_rate": {"value": 0.6, "ci_low": None},
    "policies": {"gpt-4.1 mini": {"pass_rate": {"value": 0.25}}},
    "comparisons": [{"n_pairs": 7}],
    "is_blind": True,
    "judges": ["x"],
}


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("win_rate.value>0.5", True),
        ("win_rate.value >= 0.6", True),
        ("win_rate.value<0.6", False),
        ("win_rate.value != 6e-1", False),
        ("policies.gpt-4.1 mini.pass_rate.value == .25", True),
        ("comparisons.0.n_pairs<=7", True),
        ("is_blind==1", True),
    ],
)
def test_a_gate_compares_the_named_figure(text, is_met):
    assert check_gate(parse_gate(text), SUMMARY).is_met is is_met


@pytest.mark.parametrize(
    ("sign", "is_met"), [(">=", True), ("<=", True), ("==", True), (">", False), ("<", False), ("!=", False)]
)
@pytest.mark.parametrize("value", [0.5, 0.5 - 2.5e-13, 0.5 + 2.5e-13])
def test_a_value_that_is_the_bound_but_for_rounding_is_the_bound(value, sign, is_met):
    assert check_gate(parse_gate(f"value{sign}0.5"), {"value": value}).is_met is is_met


def test_a_gate_for_tiny_numbers_tells_them_apart():
    assert check_gate(parse_gate("p<1e-9"), {"p": 1e-10}).is_met


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.49, "0.49"), (1 / 3, "0.333333"), (0.4999999, "0.4999999"), (0.5 - 2e-9, "0.499999998")],
)
def test_an_unmet_gate_is_told_with_the_digits_that_explain_it(value, shown):
    result = check_gate(parse_gate("value>=0.5"), {"value": value})
    assert not result.is_met
    assert result.describe() == f"value>=0.5: value is {shown}"


@pytest.mark.parametrize("sign", [">", "<", "!="])
def test_what_was_not_measured_meets_no_gate(sign):
    result = check_gate(parse_gate(f"win_rate.ci_low{sign}0.5"), SUMMARY)
    assert not result.is_met
    assert result.describe() == f"win_rate.ci_low{sign}0.5: win_rate.ci_low is not measured"


@pytest.mark.parametrize(
    "text", ["", "win_rate.value", "win_rate.value>", "win_rate.value>x", "a=1", "a>1>2"]
)
def test_what_is_no_gate_is_refused(text):
    with pytest.raises(UsageError, match="--gate is"):
        parse_gate(text)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("win_rte.value>1", "has no win_rte", "it has win_rate, policies"),
        ("win_rate.low>1", "has no win_rate.low", "win_rate has value, ci_low"),
        ("win_rate>1", "win_rate is no number", "win_rate has value, ci_low"),
        ("comparisons.3.n_pairs>1", "has no comparisons.3", None),
        ("judges.0>1", "judges.0 is no number", None),
    ],
)
def test_a_name_that_the_summary_lacks_is_refused_with_those_it_has(text, message, hint):
    with pytest.raises(UsageError, match=message) as caught:
        check_gate(parse_gate(text), SUMMARY)
    assert (caught.value.hint or "").startswith(hint or "")
