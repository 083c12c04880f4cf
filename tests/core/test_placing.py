import numpy as np
import pytest

from gagar_cli.core.judging import Trajectories, Verdicts, judge_groups
from gagar_cli.core.placing import Placer, empty_columns
from gagar_cli.core.tier_tables import BUILT_IN


@pytest.mark.parametrize(("largest", "dtype"), [(2**15 - 1, np.int16), (2**15, np.int32)])
def test_ranks_have_room_for_the_largest_group(largest: int, dtype: type[np.signedinteger]) -> None:
    assert empty_columns(np.zeros(largest, dtype=np.int64), 1).rank.dtype == dtype


@pytest.mark.parametrize(
    ("penalty", "factors"), [(None, [0.9, 1.0, 1.0, 0.2]), ([0.5, 9.0, 0.25, 1.0], [0.45, 1.0, 0.25, 0.2])]
)
def test_tiers_and_penalties_make_the_factors_of_passes(
    penalty: list[float] | None, factors: list[float]
) -> None:
    """Two passes in T1, one of them in the second place, one in T3, and a failure."""
    is_passed = np.array([True, False, True, True])
    rows = Trajectories(
        group=np.zeros(4, dtype=np.int64),
        reward=is_passed.astype(float),
        is_valid=np.ones(4, dtype=bool),
        is_passed=is_passed,
        tier=np.array([0, -1, 0, 2], dtype=np.int8),
        rank=np.array([7, -1, 3, 1]),
        is_violation=np.zeros(4, dtype=bool),
    )
    nothing = np.array([None], dtype=np.object_)
    judged = judge_groups(rows, Verdicts(np.array([True]), nothing, nothing))
    columns = empty_columns(rows.group, 1)
    given = None if penalty is None else np.array(penalty)
    placer = Placer(rows, judged, BUILT_IN["flash"], given, columns, is_ordered=True)
    made, standing = placer.place(np.arange(4)[None, :], np.array([0]))
    np.testing.assert_array_equal(made.high, [factors])
    np.testing.assert_array_equal(columns.quality_factor, np.where(is_passed, factors, np.nan))
    np.testing.assert_array_equal(columns.tier, [0, -1, 0, 2])
    np.testing.assert_array_equal(columns.rank, [2, -1, 1, 1])
    assert standing is not None
    np.testing.assert_array_equal(np.argsort(standing[0][is_passed]), [1, 0, 2])
