import pytest

from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.core.submission import parse_submission
from gagar_cli.errors import VerdictError

FIVES = dict.fromkeys(DIMENSIONS, 5)


def entry(candidate_id: str = "c01", **changes) -> dict:
    return {
        "id": candidate_id,
        "scores": dict(FIVES),
        "flags": {},
        "findings": [],
        "rationale": "fine",
        **changes,
    }


def finding(**changes) -> dict:
    return {
        "kind": "patch",
        "at": "c01:a.py:1",
        "anchor": "12345678",
        "claim": "x",
        "supports": ["approach"],
        **changes,
    }


def parse(*entries, ids=("c01",), twins=None, **more):
    return parse_submission({"candidates": list(entries), **more}, ids, twins or {})


def test_a_complete_submission_is_read_in_the_order_of_the_ids():
    submission = parse(entry("c02"), entry("c01"), ids=("c01", "c02"))
    assert [candidate.candidate_id for candidate in submission.candidates] == ["c01", "c02"]
    assert submission.order is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"scores": FIVES | {"approach": 0}}, "approach is 0"),
        ({"scores": FIVES | {"approach": 6}}, "approach is 6"),
        ({"scores": FIVES | {"approach": 4.5}}, "approach is 4.5"),
        ({"scores": FIVES | {"approach": "5"}}, "approach is '5'"),
        ({"scores": FIVES | {"approach": True}}, "approach is True"),
        ({"scores": {"approach": 5}}, "exactly"),
        ({"scores": None}, "scores are missing"),
        ({"flags": {"evil": True}}, "unknown flag"),
        ({"flags": {"regression": "false"}}, "regression is 'false'"),
        ({"findings": "none"}, "must be a list"),
        ({"findings": [finding(kind="rumour")]}, "kind is 'rumour'"),
        ({"findings": [finding(anchor="")]}, "anchor must be"),
        ({"findings": [finding(supports=["style"])]}, "supports is"),
        ({"findings": [finding(supports=[])]}, "supports is"),
        ({"findings": [finding(compared_with=3)]}, "compared_with"),
        ({"findings": [finding(severity=3)]}, "unknown key 'severity'"),
        ({"note": "x"}, "unknown key 'note'"),
    ],
)
def test_a_value_out_of_range_is_named(changed, message):
    with pytest.raises(VerdictError, match=message):
        parse(entry(**changed))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([entry("c01"), entry("c01"), entry("c02")], "c01 appears twice"),
        ([entry("c01")], "c02 is missing"),
        ([entry("c01"), entry("c02"), entry("c09")], "id is 'c09'"),
        ([entry("c01"), entry("c02"), "c03"], "must be an object"),
    ],
)
def test_every_candidate_is_there_exactly_once(entries, message):
    with pytest.raises(VerdictError, match=message):
        parse(*entries, ids=("c01", "c02"))


def test_all_problems_come_back_together():
    with pytest.raises(VerdictError) as caught:
        parse(entry("c01", scores=FIVES | {"approach": 9}), ids=("c01", "c02"))
    assert len(caught.value.message.splitlines()) == 2


def test_a_twin_needs_no_scores():
    submission = parse(entry("c01"), entry("c02", scores=None), ids=("c01", "c02"), twins={"c02": "c01"})
    assert submission.candidates[1].scores is None


def test_an_order_names_every_candidate_once_and_has_a_reason():
    both = [entry("c01"), entry("c02")]
    ids = ("c01", "c02")
    assert parse(*both, ids=ids, order=[["c02"], ["c01"]], order_reason="x").order == (("c02",), ("c01",))
    with pytest.raises(VerdictError, match="exactly once"):
        parse(*both, ids=ids, order=[["c02"]], order_reason="x")
    with pytest.raises(VerdictError, match="order_reason"):
        parse(*both, ids=ids, order=[["c02", "c01"]])
    with pytest.raises(VerdictError, match="lists"):
        parse(*both, ids=ids, order=["c02", "c01"], order_reason="x")
