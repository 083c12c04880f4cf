"""What goes on side by side within one group, and its turn at what a run has only so much of."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TypeVar

_Result = TypeVar("_Result")


def count_cancellations() -> int:
    """How often the running task was asked to end, and has not said that it was not meant."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


async def run_until_one_fails(works: Iterable[Coroutine[None, None, None]]) -> None:
    """Run all of them side by side; the first accident stops the others, and comes out alone.

    Where the whole is stopped at the same time, that comes out: a task group would hide it behind the accident.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if task in done:
            task.result()


async def call_apart(work: Callable[[], _Result], *, is_quick: bool) -> _Result:
    """What it gives back; in a thread, so that the other groups go on, unless that would take longer than the work."""
    return work() if is_quick else await asyncio.to_thread(work)


class GroupTurn:
    """One group's turn among those that may have sandboxes: taken with the first need, given back at its end."""

    def __init__(self, turns: asyncio.Semaphore | None) -> None:
        """`turns` are those of the whole run; None where nothing bounds them."""
        self._turns = turns
        self._taking = asyncio.Lock()
        self._is_taken = False

    async def take(self, wait: Callable[[asyncio.Semaphore], Awaitable[object]]) -> None:
        """Take the turn where the group has none yet; `wait` waits for it."""
        if self._turns is None:
            return
        async with self._taking:
            if not self._is_taken:
                await wait(self._turns)
                self._is_taken = True

    def give_back(self) -> None:
        """Let the next group have it."""
        if self._turns is not None and self._is_taken:
            self._is_taken = False
            self._turns.release()
