"""Flags as reward functions return them, 1 and 0, in every format; what is no flag is refused, or told with its value."""

from typing import Any

import pytest

from gagar_cli.errors import InputError
from tests.io.formats.test_fuzz_fields import OPENHANDS
from tests.io.formats.test_values import SLIME
from tests.io.test_following_native import nemo, skyrl, verifiers, verl

BITS = [(1, 0), (1.0, 0.0), (True, False), ("True", "False")]


@pytest.mark.parametrize(("yes", "no"), BITS, ids=["integers", "numbers", "flags", "texts"])
@pytest.mark.parametrize("place", ["", "metadata"])
def test_flags_of_rows_may_be_one_and_zero(native: Any, yes: object, no: object, place: str) -> None:
    told: list[dict[str, Any]] = [
        {"resolved": yes, "infra_failure": no}, {"resolved": no, "mask_sample": no},
        {"resolved": yes, "infra_failure": yes}, {"resolved": yes, "mask_sample": yes},
    ]  # fmt: skip
    rows = [
        verl(1, "a", n, 0.25, **({place: flags} if place else flags)) for n, flags in enumerate(told)
    ]  # the score says nothing of these
    dump = native({"1.jsonl": rows})
    assert dump.index.select("passed", "invalid_reason").rows() == [
        (True, None), (False, None), (False, "infra_failure"), (False, "mask_sample"),
    ]  # fmt: skip
    assert not any("not used" in note for note in dump.report.notes)


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("resolved", "yes", 'resolved of 2 rows are neither true nor false ("yes"), and not used'),
        ("infra_failure", 0.5, "infra_failure of 2 rows are neither true nor false (0.5), and not used"),
        ("mask_sample", [1], "mask_sample of 2 rows are neither true nor false ([1]), and not used"),
        ("n_turns", -1, "n_turns of 2 rows are no whole numbers from 0 (-1), and not used"),
        ("n_output_tokens", "many", 'n_output_tokens of 2 rows are no whole numbers from 0 ("many"), and not used'),
        ("model_patch", {"a": "b"}, 'model_patch of 2 rows are no texts ({"a": "b"}), and not used'),
        ("test_output", 3, "test_output of 2 rows are no texts (3), and not used"),
    ],
)  # fmt: skip
def test_a_column_that_is_not_used_for_its_type_is_told_once_with_a_value(
    native: Any, column: str, value: object, told: str
) -> None:
    rows = [verl(1, "a", n, float(n), **{column: value}) for n in range(2)]
    dump = native({"1.jsonl": rows})
    assert [note.partition("1.jsonl: ")[2] for note in dump.report.notes if "not used" in note] == [told]
    assert dump.index["passed"].to_list() == [False, True]


def test_the_place_of_a_column_that_is_not_used_is_told(native: Any) -> None:
    dump = native(
        {"x.jsonl": [skyrl("p", 0, 1.0) | {"env_extras": {"instance_id": "p", "resolved": "maybe"}}]}
    )
    assert any(
        'env_extras.resolved of 1 row is neither true nor false ("maybe")' in note
        for note in dump.report.notes
    )


@pytest.mark.parametrize("nothing", [None, float("nan"), "nan"])
def test_a_flag_that_is_null_or_nan_is_not_evaluated(native: Any, nothing: object) -> None:
    dump = native({"1.jsonl": [verl(1, "a", 0, 1.0, resolved=nothing), verl(1, "a", 1, 1.0, resolved=1)]})
    assert dump.index["invalid_reason"].to_list() == ["not_evaluated", None]
    assert not any("not used" in note for note in dump.report.notes)


@pytest.mark.parametrize(("yes", "no"), BITS[:3])
def test_a_sample_of_slime_is_removed_by_one(native: Any, yes: object, no: object) -> None:
    rows = [SLIME | {"index": n, "remove_sample": flag} for n, flag in enumerate((yes, no))]
    assert native({"x.jsonl": rows}).index["invalid_reason"].to_list() == ["mask_sample", None]


@pytest.mark.parametrize(("yes", "no"), BITS[:3])
def test_a_result_of_verifiers_is_truncated_by_one(native: Any, yes: object, no: object) -> None:
    rows = [verifiers(1, 1.0) | {"is_truncated": flag} for flag in (yes, no)]
    assert [record["is_truncated"] for record in native({"x.jsonl": rows}).iter_records()] == [True, False]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (SLIME | {"remove_sample": "no"}, r'x\.jsonl:2: remove_sample is "no", expected true, false or null'),
        (verifiers(1, 1.0) | {"is_truncated": 2}, r"x\.jsonl:2: is_truncated is 2, expected true, false or null"),
        (nemo(0, 1, 1.0) | {"mask_sample": "no"}, r'x\.jsonl:2: mask_sample is "no", expected true, false or null'),
    ],
    ids=["slime", "verifiers", "nemo-gym"],
)  # fmt: skip
def test_another_flag_is_refused_at_its_row_alone(native: Any, row: dict[str, Any], message: str) -> None:
    good = {name: value for name, value in row.items() if name not in ("remove_sample", "is_truncated", "mask_sample")}  # fmt: skip
    good |= {"index": 9} if "index" in good else {}
    with pytest.raises(InputError, match=message):
        native({"x.jsonl": [good, row]})
    assert native({"x.jsonl": [good, row]}, on_bad_record="skip").index.height == 1


def test_what_broke_a_row_of_nemo_gym_may_be_one(native: Any) -> None:
    rows = [
        nemo(0, 0, 1.0) | {"eval_timed_out": 1},
        nemo(0, 1, 1.0) | {"agent_timed_out": 1.0},
        nemo(0, 2, 1.0) | {"evaluation_completed": 0},
    ]
    dump = native({"x.jsonl": rows})
    assert dump.index["invalid_reason"].to_list() == ["infra_failure", None, "infra_failure"]
    assert [record.get("is_truncated") for record in dump.iter_records()] == [None, True, None]


def test_what_broke_an_attempt_of_openhands_may_be_one(native: Any) -> None:
    broken = OPENHANDS | {"report": {"resolved": 0, "error_eval": 1}}
    dump = native({"output.jsonl": [broken]})
    assert dump.index["invalid_reason"].to_list() == ["infra_failure"]


def test_what_broke_an_instance_of_a_report_may_be_one(native: Any) -> None:
    rows = [verl(1, "a", 0, 1.0, instance_id="a__b-1")]
    report = {"a__b-1": {"resolved": False, "infra_failure": 1}}
    dump = native({"1.jsonl": rows, "report.json": report}, "1.jsonl", joins=("report.json",))
    assert dump.index["invalid_reason"].to_list() == ["infra_failure"]
