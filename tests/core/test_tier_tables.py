"""Tier tables from TOML: every rule, and every mistake with its line."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.factors import dense_places, quality_factors
from gagar_cli.core.ranking import TIERS
from gagar_cli.core.tier_tables import BUILT_IN, Flat, Linear, TierTable, TopRest, parse_tier_table
from gagar_cli.errors import UsageError
from gagar_cli.io.tier_tables import read_tier_table

FLASH = """\
[T1]
rule = "top-rest"
top = 1.0
rest = 0.9

[T2]
rule = "linear"
first = 0.85
last = 0.4

[T3]
rule = "flat"
factor = 0.2
"""


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_tier_table(text, "t.toml")
    return caught.value.message


def test_built_in_table_is_what_its_toml_says() -> None:
    assert parse_tier_table(FLASH, "flash.toml") == BUILT_IN["flash"]


def test_ties_and_cap_are_read() -> None:
    text = 'ties = "average"\n[cap]\nkind = "waterfill"\nlimit = 1.25\n' + FLASH
    expected = replace(BUILT_IN["flash"], ties="average", cap="waterfill", limit=1.25)
    assert parse_tier_table(text, "t.toml") == expected


def test_limit_alone_leaves_the_kind_open() -> None:
    table = parse_tier_table("cap.limit = 2\n" + FLASH, "t.toml")
    assert (table.cap, table.limit) == (None, 2.0)


def test_every_tier_may_have_any_rule() -> None:
    text = """
T1 = {rule = "linear", first = 1, last = 0.8, lone = 0.9}
T2 = {rule = "flat", factor = 0.5}
T3 = {rule = "top-rest", top = 0.5, rest = 0.25}
"""
    table = parse_tier_table(text, "t.toml")
    tier, rank = np.array([0, 0, 0, 1, 1, 2, 2, 2]), np.array([1, 2, 3, 1, 2, 1, 1, 2])
    made = quality_factors(table, dense_places(np.zeros(8, int), tier, rank)).high.tolist()
    assert made == [1.0, 0.9, 0.8, 0.5, 0.5, 0.5, 0.5, 0.25]
    alone = quality_factors(table, dense_places(np.arange(3), np.arange(3), np.ones(3, int)))
    assert alone.high.tolist() == [0.9, 0.5, 0.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            FLASH.replace("last", "lats"), "t.toml:9: unknown key lats in [T2], the nearest is last", id="key"
        ),
        pytest.param(FLASH + "[T4]\n", "t.toml:14: unknown key T4, the nearest is T", id="section"),
        pytest.param("tie = 1\n" + FLASH, "t.toml:1: unknown key tie, the nearest is ties", id="top-key"),
        pytest.param(
            "[cap]\nkinds = 1\n" + FLASH,
            "t.toml:2: unknown key kinds in [cap], the nearest is kind",
            id="cap-key",
        ),
        pytest.param(FLASH.replace("[T3]", "[cap]"), "t.toml: [T3] is missing", id="tier-missing"),
        pytest.param(FLASH.replace("last = 0.4\n", ""), "t.toml:7: T2 last is missing", id="missing"),
        pytest.param(
            FLASH.replace("first = 0.85\n", ""), "t.toml:7: T2 first is missing", id="first-missing"
        ),
        pytest.param(
            FLASH.replace('rule = "flat"\n', ""),
            "t.toml:11: T3 rule is missing, expected one of flat, top-rest, linear",
            id="no-rule",
        ),
        pytest.param(
            FLASH.replace('"flat"', '"flad"'), "t.toml:12: T3 rule is 'flad', expected one of", id="rule"
        ),
        pytest.param(
            FLASH.replace('"flat"', "3"), "t.toml:12: T3 rule is 3, expected one of", id="rule-type"
        ),
        pytest.param(
            "T1 = 1\n" + FLASH.partition("[T2]")[1] + FLASH.partition("[T2]")[2],
            "t.toml:1: T1 is 1, expected a table",
            id="no-table",
        ),
        pytest.param(
            FLASH.replace("0.4", "0.95"),
            "t.toml:9: T2 last is 0.95, expected at most T2 lone (0.85)",
            id="order",
        ),
        pytest.param(
            FLASH.replace("factor = 0.2", "factor = 0.5"),
            "t.toml:13: T3 factor is 0.5, expected at most T2 last (0.4)",
            id="order-of-tiers",
        ),
        pytest.param(
            FLASH.replace("= 0.2", "= 0"),
            "t.toml:13: T3 factor is 0, expected more than 0 and at most 1",
            id="zero",
        ),
        pytest.param(
            FLASH.replace("1.0", "1.0000001"),
            "t.toml:3: T1 top is 1.0000001, expected more than 0",
            id="just-above-1",
        ),
        pytest.param(
            FLASH.replace("1.0", "1.2"), "t.toml:3: T1 top is 1.2, expected more than 0", id="above-1"
        ),
        pytest.param(
            FLASH.replace("= 0.2", '= "low"'), "t.toml:13: T3 factor is 'low', expected a number", id="text"
        ),
        pytest.param(
            FLASH.replace("= 0.2", "= true"), "t.toml:13: T3 factor is True, expected a number", id="bool"
        ),
        pytest.param(
            FLASH.replace("= 0.2", "= nan"), "t.toml:13: T3 factor is NaN, number out of range", id="nan"
        ),
        pytest.param(
            FLASH.replace("= 0.2", "= 1e-99999999"), "t.toml:13: T3 factor is 1E-99999999", id="tiny"
        ),
        pytest.param('ties = "mean"\n' + FLASH, "t.toml:1: ties is 'mean', expected one of dense", id="ties"),
        pytest.param("ties = []\n" + FLASH, "t.toml:1: ties is [], expected one of dense", id="ties-type"),
        pytest.param(
            '[cap]\nkind = "max"\n' + FLASH, "t.toml:2: cap kind is 'max', expected one of none", id="cap"
        ),
        pytest.param(
            "[cap]\nlimit = 1\n" + FLASH, "t.toml:2: cap limit is 1, expected more than 1", id="limit"
        ),
        pytest.param(
            '[cap]\nlimit = "x"\n' + FLASH, "t.toml:2: cap limit is 'x', expected a number", id="limit-type"
        ),
        pytest.param(
            "cap = 1.5\n" + FLASH, "t.toml:1: cap is Decimal('1.5'), expected a table", id="cap-type"
        ),
        pytest.param("[T1]\nrule =\n", "t.toml:2: not TOML", id="syntax"),
        pytest.param(FLASH + "factor = 0.3\n", "t.toml:14: not TOML", id="twice"),
    ],
)
def test_bad_table_is_refused_naming_the_line(text: str, message: str) -> None:
    assert refusal(text).startswith(message)


def test_table_that_ranks_a_lower_tier_higher_cannot_be_made() -> None:
    half = Fraction(1, 2)
    with pytest.raises(ValueError, match=r"T3 factor is 0\.9"):
        TierTable(TopRest(half, half), Linear(half, half, half), Flat(Fraction(9, 10)))


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_tables_survive_being_written_as_toml(name: str) -> None:
    record = BUILT_IN[name].to_record()
    text = ""
    for tier in TIERS:
        lines = [f"{key} = {value!r}".replace("'", '"') for key, value in record[tier].items()]  # type: ignore[attr-defined]
        text += "\n".join([f"[{tier}]", *lines, ""])
    assert parse_tier_table(text, "t.toml") == BUILT_IN[name]


SIXTEENTHS = st.lists(st.integers(1, 16), min_size=6, max_size=6)


@given(SIXTEENTHS, st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), min_size=1, max_size=12))
def test_better_places_never_have_smaller_factors(numbers: list[int], places: list[tuple[int, int]]) -> None:
    top, rest, first, lone, last, flat = (Fraction(n, 16) for n in sorted(numbers, reverse=True))
    table = TierTable(TopRest(top, rest), Linear(first, lone, last), Flat(flat))
    tier, rank = np.array(places).T
    made = quality_factors(table, dense_places(np.zeros(len(tier), int), tier, rank)).high
    order = np.lexsort((rank, tier))
    assert (np.diff(made[order]) <= 0).all()


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text("\ufeff" + FLASH, encoding="utf-8")
    assert read_tier_table(str(tmp_path / "t.toml")) == BUILT_IN["flash"]
