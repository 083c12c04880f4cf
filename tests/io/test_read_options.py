import pytest

from gagar_cli.cli import run
from gagar_cli.errors import UsageError
from gagar_cli.io.read_options import ReadOptions


@pytest.mark.parametrize("threshold", ["nan", "inf", "-inf", "1e400"])
def test_threshold_that_is_no_finite_number_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], threshold: str
) -> None:
    assert run(["validate", "nothing.jsonl", "--pass-threshold", threshold]) == 2
    told = capsys.readouterr().err
    assert f"--pass-threshold is {float(threshold)}, expected a finite number" in told
    with pytest.raises(UsageError, match="--pass-threshold"):
        ReadOptions(pass_threshold=float(threshold))


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1e308])
def test_any_finite_threshold_will_do(threshold: float) -> None:
    assert ReadOptions(pass_threshold=threshold).pass_threshold == threshold
