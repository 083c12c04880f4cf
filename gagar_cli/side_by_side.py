"""Work that goes on side by side until all of it is done, or the first accident ends it."""

import asyncio
from collections.abc import Coroutine, Iterable

OPEN_PER_TURN = 2
"""Groups that are open for each call that may be on its way: while one's tools run another asks."""


def count_open(n_groups: int, n_turns: int) -> int:
    """How many groups to work on side by side, so that `n_turns` calls are on their way as long as any are left.

    They are as many in each round: with a last round of a few the endpoint would idle. One turn is one group.

    >>> count_open(200, 64), count_open(130, 64), count_open(5, 64), count_open(5, 1)
    (100, 65, 5, 1)
    """
    if n_turns == 1 or n_groups <= n_turns:
        return min(n_groups, n_turns)
    n_rounds = -(-n_groups // (OPEN_PER_TURN * n_turns))
    return -(-n_groups // n_rounds)


async def run_side_by_side(works: Iterable[Coroutine[None, None, None]]) -> None:
    """Run all of them; where one raises the others are cancelled, and that first error is what comes out."""
    try:
        async with asyncio.TaskGroup() as running:
            for work in works:
                running.create_task(work)
    except BaseExceptionGroup as group:
        # What others met while they were stopped adds nothing.
        raise group.exceptions[0] from None
