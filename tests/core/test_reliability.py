import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gagar_cli.core.reliability import krippendorff_alpha

# The worked example of Krippendorff's 2011 paper: 4 observers, 12 units, missing ratings.
NAN = float("nan")
EXAMPLE = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
    [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
]


@pytest.mark.parametrize(("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_the_published_example_comes_out(level, alpha):
    assert krippendorff_alpha(EXAMPLE, level) == pytest.approx(alpha, abs=5e-4)


@settings(max_examples=60)
@given(
    st.integers(2, 5).flatmap(
        lambda n: st.lists(
            st.lists(st.sampled_from([1.0, 2.0, 3.0, NAN]), min_size=6, max_size=6), min_size=n, max_size=n
        )
    ),
    st.sampled_from(["nominal", "ordinal", "interval"]),
)
def test_it_is_the_peer_packages(ratings, level):
    ours = krippendorff_alpha(ratings, level)
    if ours is not None:
        peer = krippendorff.alpha(np.array(ratings), level_of_measurement=level)
        assert ours == pytest.approx(peer, abs=1e-9)


def test_nothing_to_compare_is_none():
    assert krippendorff_alpha([[1, NAN], [NAN, 2]], "nominal") is None
    assert krippendorff_alpha([[2, 2], [2, 2]], "nominal") is None


def test_many_distinct_scores_take_no_table_of_all_pairs():
    # 30,000 distinct values: a matrix of their pairs would hold 7 GB.
    scores = np.random.default_rng(0).uniform(1, 5, size=(3, 10_000))
    assert abs(krippendorff_alpha(scores, "interval")) < 0.02
    assert krippendorff_alpha(np.stack([scores[0], scores[0]]), "interval") == 1.0
