import asyncio

import pytest

from gagar_cli.side_by_side import run_side_by_side


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
