from fractions import Fraction
from pathlib import Path

import pytest

from gagar_cli.core.rubric import PAPER, weighted_score
from gagar_cli.core.tiers import assign_tier
from gagar_cli.errors import UsageError
from gagar_cli.io.rubrics import parse_rubric, read_rubric

EXAMPLE = Path(__file__).parents[2] / "examples" / "library_rubric.toml"

PAPER_TOML = (
    "".join(
        f'[dimensions.{name}]\nweight = {float(weight)}\nquestion = "{question}"\n'
        for (name, weight), question in zip(PAPER.weights.items(), PAPER.questions, strict=True)
    )
    + """
[tiers.T1]
scores_at_least = 4
without_flags = ["serious_process_issue", "regression"]
[tiers.T3]
flags = ["out_of_scope", "test_specific"]
scores_at_most = [{ approach = 1 }, { minimality = 2, side_effects = 2 }]
"""
)

TWO = """\
name = "two"
[dimensions.fit]
weight = 0.75
question = "Does it fit?"
[dimensions.care]
weight = 0.25
question = "Was it made with care?"
[tiers.T3]
scores_at_most = [{ fit = 1 }]
"""


def test_the_built_in_rubric_is_what_its_toml_says():
    rubric = parse_rubric(PAPER_TOML, "paper.toml", name="paper")
    assert rubric == PAPER
    assert rubric.digest == PAPER.digest


def test_the_tier_rules_may_be_left_out_where_the_dimensions_are_the_papers():
    assert parse_rubric(PAPER_TOML.partition("[tiers.T1]")[0], "p.toml", name="paper") == PAPER


def test_a_teams_own_dimensions_make_scores_and_tiers():
    rubric = parse_rubric(TWO, "two.toml")
    assert (rubric.name, rubric.dimensions) == ("two", ("fit", "care"))
    assert weighted_score({"fit": 5, "care": 2}, rubric) == Fraction(17, 4)
    assert [assign_tier({"fit": fit, "care": 4}, {}, rubric) for fit in (1, 3, 4)] == ["T3", "T2", "T1"]
    assert assign_tier({"fit": 5, "care": 5}, {"test_specific": True}, rubric) == "T3"


def test_weights_are_exact_decimals():
    thirds = TWO.replace("0.75", "0.7").replace("0.25", "0.3")
    assert parse_rubric(thirds, "t.toml").shares == (Fraction(7, 10), Fraction(3, 10))


def test_the_digest_changes_with_anything_but_the_name():
    digest = parse_rubric(TWO, "two.toml").digest
    assert parse_rubric(TWO.replace('"two"', '"other"'), "two.toml").digest == digest
    for old, new in (
        ("Does it fit?", "Does it?"),
        ("fit = 1", "fit = 2"),
        ("0.75", "0.7500001"),
        ("care]", "love]"),
    ):
        changed = TWO.replace(old, new).replace("0.25", "0.2499999" if "01" in new else "0.25")
        assert parse_rubric(changed, "two.toml").digest != digest


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "two"', "name = 2", 'r.toml:1: name is 2, expected a text of at most 80 characters'),
        ('name = "two"', 'nam = "two"', "r.toml:1: unknown key nam, the nearest is name"),
        ("weight = 0.25", "wieght = 0.25", "r.toml:6: unknown key wieght, the nearest is weight"),
        ("weight = 0.25", "weight = 0", "r.toml:6: weight is 0, expected 0.001 to 1 with at most 12 decimals"),
        ("weight = 0.25", 'weight = "a"', "r.toml:6: weight is a, expected"),
        ("weight = 0.25", "weight = true", "r.toml:6: weight is True, expected"),
        ("weight = 0.25", "weight = nan", "r.toml:6: weight is NaN, expected"),
        ("weight = 0.25", "weight = 1e-999999999", "r.toml:6: weight is 1E-999999999, expected"),
        ("weight = 0.25", "weight = 0.2500000000001", "r.toml:6: weight is 0.2500000000001, expected"),
        ("weight = 0.25\n", "", "r.toml:5: weight is None, expected"),
        ("weight = 0.25", "weight = 0.3", "r.toml:2: the weights sum to 1.05, expected 1"),
        ('"Does it fit?"', '""', "r.toml:4: question is ''"),
        ("[dimensions.care]", "[dimensions.regression]", "r.toml:5: regression cannot name a dimension: a flag"),
        ("[dimensions.care]", "[dimensions.Care]", "r.toml:5: Care cannot name a dimension"),
        ("fit = 1", "fitt = 1", "r.toml:9: unknown key fitt, the nearest is fit"),
        ("fit = 1", "fit = 6", "r.toml:9: scores_at_most has 6, expected an integer from 1 to 5"),
        ("[{ fit = 1 }]", "1", "r.toml:9: scores_at_most is 1, expected a list"),
        ("scores_at_most = [{ fit = 1 }]", "", "r.toml:8: scores_at_most is missing, and the built-in rule names"),
        ("[tiers.T3]", "[tiers.T2]", "r.toml:8: unknown key T2, the nearest is T"),
        ("[tiers.T3]", '[tiers.T3]\nflags = ["regresion"]', "r.toml:9: flags has regresion, the nearest is regression"),
        ("[tiers.T3]", '[tiers.T3]\nflags = ["integrity_violation"]', "r.toml:9: flags has integrity_violation"),
        ("[tiers.T3]", "[tiers.T1]\nscores_at_least = 4.5\n[tiers.T3]", "r.toml:9: scores_at_least has 4.5"),
        ("[dimensions.fit]", "[dimensions.fit", "r.toml:2: not TOML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(old, new, message):
    assert TWO.count(old) == 1
    with pytest.raises(UsageError) as caught:
        parse_rubric(TWO.replace(old, new), "r.toml")
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize("text", ["", "dimensions = 3", "[dimensions]"])
def test_a_rubric_without_dimensions_is_refused(text):
    with pytest.raises(UsageError, match="dimensions"):
        parse_rubric(text, "r.toml")


def test_the_example_is_a_rubric():
    rubric = read_rubric(str(EXAMPLE))
    assert rubric.dimensions == ("approach", "compatibility", "minimality", "own_tests")
    assert rubric.t3_scores[1] == (("compatibility", 1),)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UsageError, match="not a readable file"):
        read_rubric(str(tmp_path / "none.toml"))
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(UsageError, match="not UTF-8"):
        read_rubric(str(tmp_path / "latin.toml"))
