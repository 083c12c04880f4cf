"""Stopping in the middle: one signal cancels the work, which closes what it opened, and then the program ends.

SIGINT is asyncio's own (it cancels the main task and raises KeyboardInterrupt). SIGTERM is treated alike here, and
ends as SystemExit(143). A signal that arrives in the middle of a write waits for the next turn of the event loop.
"""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import TypeVar

_Result = TypeVar("_Result")


def run_interruptibly(work: Coroutine[None, None, _Result]) -> _Result:
    """`asyncio.run` that ends cleanly on SIGTERM too.

    Raises:
        KeyboardInterrupt: SIGINT arrived.
        SystemExit: SIGTERM arrived; its code is 143.
    """
    is_terminated = False

    async def guarded() -> _Result:
        task = asyncio.current_task()

        def terminate() -> None:
            nonlocal is_terminated
            is_terminated = True
            assert task is not None  # noqa: S101 - a coroutine that runs has a task
            task.cancel()

        # Outside the main thread signals go elsewhere, and there is nothing to set up.
        with contextlib.suppress(RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        return await work

    earlier = signal.getsignal(signal.SIGTERM)
    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        if is_terminated:
            raise SystemExit(143) from None
        raise
    finally:
        # The loop leaves the system's default behind; outside the main thread nothing was changed.
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, earlier)
