import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.grouping import REASONS, count_codes, members_by_size, outline_groups


@pytest.mark.parametrize(
    ("marks", "reason"),
    [
        ("", "no_valid"),
        ("x", "no_valid"),
        ("px", "singleton"),
        ("f", "singleton"),
        ("ppx", "all_pass"),
        ("ff", "all_fail"),
        ("pf", "lone_pass"),
        ("ppf", "eligible"),
    ],
)
def test_reason_of_a_group(marks: str, reason: str) -> None:
    passed = np.array([mark in "px" for mark in marks], dtype=bool)
    invalid = np.array([mark == "x" for mark in marks], dtype=bool)
    outlines = outline_groups(np.zeros(len(marks), dtype=np.int64), passed, invalid, 1)
    assert REASONS[outlines.reason[0]] == reason
    assert outlines.is_eligible[0] == (reason == "eligible")
    assert outlines.is_mixed[0] == (reason in ("eligible", "lone_pass"))
    assert outlines.count_by_reason() == {**dict.fromkeys(REASONS, 0), reason: 1}


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), max_size=30))
def test_counts_are_those_of_each_group(rows: list[tuple[int, bool, bool]]) -> None:
    group = np.array([code for code, _, _ in rows], dtype=np.int64)
    passed = np.array([is_passed for _, is_passed, _ in rows], dtype=bool)
    invalid = np.array([is_invalid for _, _, is_invalid in rows], dtype=bool)
    outlines = outline_groups(group, passed, invalid, 4)
    for code in range(4):
        members = [row for row in rows if row[0] == code]
        assert outlines.n_rows[code] == len(members)
        assert outlines.n_valid[code] == sum(not is_invalid for _, _, is_invalid in members)
        assert outlines.n_passed[code] == sum(p and not i for _, p, i in members)


@given(st.lists(st.integers(0, 6), max_size=30))
def test_every_member_is_in_one_group_of_its_size(group: list[int]) -> None:
    codes = np.array(group, dtype=np.int64)
    made = [row.tolist() for members in members_by_size(codes) for row in members]
    expected = [np.flatnonzero(codes == code).tolist() for code in range(7) if code in group]
    assert made == sorted(expected, key=len)


def test_codes_are_counted_over_the_border_of_two_parts() -> None:
    codes = np.arange(2_500_000, dtype=np.uint32) % 7
    assert count_codes(codes, 3).tolist() == np.bincount(codes).tolist()
    assert count_codes(codes[:0], 2).tolist() == [0, 0]


def test_only_what_counts_is_counted():
    codes, is_counted = np.array([2, 0, 2, 1]), np.array([True, True, True, False])
    assert count_codes(codes, 4, is_counted).tolist() == [1, 0, 2, 0]
