import pytest

from gagar_cli.core.spending import Prices
from gagar_cli.errors import UsageError
from gagar_cli.io.prices import read_prices


@pytest.fixture
def table(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "prices.toml"
        path.write_text(text)
        return str(path)

    return write


def test_a_model_with_a_slash_and_a_cache_price_is_found(table):
    path = table('["org/big"]\nin = 0.5\ncached = 0.05\nout = 2\n[small]\nin = 0\nout = 0\n')
    assert read_prices(path, "org/big") == Prices(0.5, 2.0, 0.05)
    assert read_prices(path, "small") == Prices(0.0, 0.0, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[modell]\nin = 1\nout = 1", 'no prices of "model"'),
        ("[model]\nin = 1", "has no out"),
        ("[model]\nin = -1\nout = 1", "expected a number from 0"),
        ("[model]\nin = nan\nout = 1", "expected a number from 0"),
        ("[model]\nin = true\nout = 1", "expected a number from 0"),
        ("[model]\nin = 1\nout = 1\ninput = 2", "expected in, cached, out"),
        ("model = 3", "expected a table"),
        ("[model", "not TOML"),
    ],
)
def test_what_is_no_price_is_told(table, text, message):
    with pytest.raises(UsageError, match=message):
        read_prices(table(text), "model")


def test_a_misspelt_model_is_answered_with_the_nearest(table):
    with pytest.raises(UsageError) as caught:
        read_prices(table("[my-model]\nin = 1\nout = 1"), "my-modle")
    assert caught.value.hint == 'the nearest is "my-model"'


def test_a_missing_table_is_told(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        read_prices(str(tmp_path / "absent.toml"), "model")


def test_a_price_that_no_number_holds_is_refused(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(f"[m]\nin = 1\nout = {'9' * 400}\n")
    with pytest.raises(UsageError, match=r"m\"?\.out is 999.*expected a number from 0"):
        read_prices(str(path), "m")
