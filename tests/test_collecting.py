import gc

import pytest

from gagar_cli.collecting import N_OBJECTS, rare_collections


@pytest.fixture(autouse=True)
def thresholds():
    before = gc.get_threshold()
    yield before
    gc.unfreeze()
    gc.set_threshold(*before)


def test_young_objects_are_looked_through_seldom_and_old_ones_left_alone(thresholds):
    n_frozen = gc.get_freeze_count()
    with rare_collections():
        assert gc.get_threshold() == (N_OBJECTS, *thresholds[1:])
        assert gc.get_freeze_count() > n_frozen + 1_000
    assert (gc.get_threshold(), gc.get_freeze_count()) == (thresholds, 0)


def test_of_several_at_a_time_the_last_one_puts_things_back(thresholds):
    first, second = rare_collections(), rare_collections()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] == N_OBJECTS
    second.__exit__(None, None, None)
    assert gc.get_threshold() == thresholds


def test_an_accident_inside_puts_things_back(thresholds):
    with pytest.raises(ValueError, match="broke"), rare_collections():
        raise ValueError("broke")
    assert (gc.get_threshold(), gc.get_freeze_count()) == (thresholds, 0)


def test_what_a_calling_program_has_frozen_stays_so(thresholds):
    gc.freeze()
    n_frozen = gc.get_freeze_count()
    with rare_collections():
        assert gc.get_threshold()[0] == N_OBJECTS
    # One that is dropped meanwhile is no longer among them.
    assert 0 <= n_frozen - gc.get_freeze_count() < 1_000
