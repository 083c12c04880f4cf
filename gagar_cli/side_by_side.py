"""Work that goes on side by side until all of it is done, or the first accident ends it."""

import asyncio
from collections.abc import Coroutine, Iterable


async def run_side_by_side(works: Iterable[Coroutine[None, None, None]]) -> None:
    """Run all of them; where one raises the others are cancelled, and that first error is what comes out."""
    try:
        async with asyncio.TaskGroup() as running:
            for work in works:
                running.create_task(work)
    except BaseExceptionGroup as group:
        # What others met while they were stopped adds nothing.
        raise group.exceptions[0] from None
