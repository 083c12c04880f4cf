from gagar_cli.core.arrivals import Arrivals
from gagar_cli.core.schema import GroupKey

A, B, C = (GroupKey(None, name) for name in "abc")


def test_a_group_is_whole_once_its_count_is_there_whatever_the_order_of_arrival():
    arrivals = Arrivals(group_size=2)
    arrivals.add(A, "1", 0)
    arrivals.add(B, "1", 0)
    arrivals.add(B, "2", 0)
    arrivals.add(A, "2", 0)
    assert list(arrivals.take_whole(0)) == [B, A]
    assert list(arrivals.take_whole(9)) == []


def test_segments_of_one_trajectory_count_once():
    arrivals = Arrivals(group_size=2)
    arrivals.add(A, "1", 0)
    arrivals.add(A, "1", 0)
    assert list(arrivals.take_whole(0)) == []


def test_what_comes_for_a_whole_group_is_told_from_what_comes_just_in_time():
    arrivals = Arrivals(group_size=1)
    assert arrivals.add(A, "1", 0)
    assert arrivals.add(A, "2", 0)
    assert list(arrivals.take_whole(0)) == [A]
    assert not arrivals.add(A, "3", 0)


def test_a_quiet_group_is_whole_and_a_new_trajectory_starts_the_wait_anew():
    arrivals = Arrivals(quiet_seconds=10)
    arrivals.add(A, "1", 0)
    arrivals.add(B, "1", 5)
    assert list(arrivals.take_whole(9)) == []
    arrivals.add(A, "2", 9)
    assert list(arrivals.take_whole(15)) == [B]
    assert list(arrivals.take_whole(19)) == [A]


def test_a_mark_and_the_end_make_groups_whole():
    arrivals = Arrivals(group_size=9)
    for key in (A, B, C):
        arrivals.add(key, "1", 0)
    arrivals.mark(B)
    arrivals.mark(GroupKey(1, "unknown"))
    assert list(arrivals.take_whole(0)) == [B]
    assert arrivals.n_waiting == 2
    assert list(arrivals.take_whole(0, is_end=True)) == [A, C]
    assert arrivals.n_waiting == 0


def test_a_group_that_was_reopened_must_become_whole_again():
    arrivals = Arrivals(group_size=2)
    for name in ("1", "2"):
        arrivals.add(A, name, 0)
    arrivals.add(B, "1", 0)
    assert list(arrivals.take_whole(0)) == [A]
    assert (arrivals.is_open(A), arrivals.is_open(B)) == (False, True)
    for key in (A, B):
        arrivals.reopen(key)
    assert (arrivals.is_open(A), arrivals.n_waiting) == (True, 0)
    assert arrivals.add(A, "2", 0)
    assert arrivals.add(B, "2", 0)
    assert list(arrivals.take_whole(0)) == []
    assert arrivals.add(A, "1", 0)
    assert list(arrivals.take_whole(0)) == [A]


def test_quiet_means_nothing_while_something_is_awaited_and_the_end_does():
    arrivals = Arrivals(quiet_seconds=1)
    arrivals.add(A, "1", 0)
    arrivals.add(B, "1", 0)
    assert list(arrivals.take_whole(5, is_awaited=lambda key: key == A)) == [B]
    assert list(arrivals.take_whole(5, is_end=True, is_awaited=lambda key: key == A)) == [A]
