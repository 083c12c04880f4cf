import asyncio

import pytest

from gagar_cli.side_by_side import count_open, run_side_by_side


def test_all_of_it_runs_at_the_same_time():
    gate = asyncio.Barrier(3)

    async def work() -> None:
        async with asyncio.timeout(5):
            await gate.wait()

    asyncio.run(run_side_by_side(work() for _ in range(3)))


def test_the_first_accident_comes_out_alone_and_ends_the_others():
    ended = []

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("waiting")

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        asyncio.run(run_side_by_side([wait(), fail()]))
    assert ended == ["waiting"]


@pytest.mark.parametrize("n_turns", [2, 3, 8, 64])
def test_rounds_of_open_groups_are_alike_and_never_fewer_than_calls(n_turns):
    for n_groups in range(1, 8 * n_turns):
        n_open = count_open(n_groups, n_turns)
        n_rounds = -(-n_groups // n_open)
        assert min(n_groups, n_turns) <= n_open <= 2 * n_turns
        # The last round lacks less than one group for each of the others.
        assert 0 <= n_rounds * n_open - n_groups < n_rounds


def test_one_call_at_a_time_is_one_group_at_a_time():
    assert [count_open(n_groups, 1) for n_groups in (0, 1, 9)] == [0, 1, 1]
