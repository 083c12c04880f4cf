import re

import pytest

from gagar_cli.calibrate import CalibrateResult
from gagar_cli.core.calibration import Outcome
from gagar_cli.core.calibration_card import make_card
from gagar_cli.core.spending import Spending
from gagar_cli.report.calibration_page import calibration_page


def outcomes(n_flaws: int, n_seen: int, n_each: int) -> list[Outcome]:
    def some(role: str, kind: str, n: int, *, is_right: bool = True) -> list[Outcome]:
        return [Outcome(role, kind, is_right, not is_right, is_tier_3=False)] * n

    return [
        *some("flaw", "debug_print", n_seen),
        *some("flaw", "debug_print", n_flaws - n_seen, is_right=False),
        *some("copy", "copy", n_each),
        *some("injected", "praise", n_each),
    ]


@pytest.mark.parametrize(
    ("made", "colour"),
    [((60, 60, 80), "up"), ((60, 60, 12), ""), ((60, 30, 80), "down")],
    ids=["enough cases", "too few", "a fault"],
)
def test_the_page_is_green_only_where_the_sample_leaves_no_doubt(made, colour):
    card = make_card("m", [outcomes(*made)], consistency=[], spending=Spending())
    page = calibration_page(CalibrateResult((card,), {}, None, 0, ()))
    [(found, text)] = re.findall(r'<p class="answer (\w*)">m: ([^<]*)</p>', page)
    assert found == colour
    assert text.startswith("not fit for use" if colour == "down" else "fit for use")
    assert "<dt>verdict</dt>" in page
