import asyncio
import time

import pytest

from gagar_cli.errors import EndpointError
from gagar_cli.grader.breaker import CircuitBreaker
from gagar_cli.grader.client import EndpointClient, EndpointSettings
from gagar_cli.grader.replies import RetryableError

MESSAGES = [{"role": "user", "content": "hello"}]


class Calls:
    """Calls through a breaker, with when each was let through."""

    def __init__(self, breaker: CircuitBreaker) -> None:
        self.breaker = breaker
        self.times: list[float] = []

    async def make(self, *, fails: bool, seconds: float = 0.0) -> None:
        async with self.breaker.guard():
            self.times.append(time.monotonic())
            await asyncio.sleep(seconds)
            if fails:
                raise RetryableError("down")

    async def fail(self, n: int) -> None:
        for _ in range(n):
            with pytest.raises(RetryableError):
                await self.make(fails=True)


def test_failures_in_a_row_pause_new_calls():
    async def run() -> list[float]:
        calls = Calls(CircuitBreaker(3, 0.2, 2))
        await calls.fail(3)
        await calls.make(fails=False)
        await calls.make(fails=False)
        return calls.times

    times = asyncio.run(run())
    assert times[3] - times[2] >= 0.2
    assert times[4] - times[3] < 0.1


def test_an_answer_in_between_starts_the_count_anew():
    async def run() -> float:
        calls = Calls(CircuitBreaker(3, 5.0, 2))
        await calls.fail(2)
        await calls.make(fails=False)
        await calls.fail(2)
        started = time.monotonic()
        await calls.make(fails=False)
        return time.monotonic() - started

    assert asyncio.run(run()) < 1


def test_after_a_pause_one_call_probes_and_the_others_follow_its_answer():
    async def run() -> list[float]:
        calls = Calls(CircuitBreaker(2, 0.1, 2))
        await calls.fail(2)
        await asyncio.gather(*(calls.make(fails=False, seconds=0.2) for _ in range(5)))
        return calls.times[2:]

    probe, *others = asyncio.run(run())
    assert min(others) - probe >= 0.2
    assert max(others) - min(others) < 0.1


def test_a_probe_that_is_called_off_leaves_its_place_to_the_next():
    async def run() -> None:
        calls = Calls(CircuitBreaker(1, 0.05, 2))
        await calls.fail(1)
        probe = asyncio.create_task(calls.make(fails=False, seconds=60))
        await asyncio.sleep(0.15)
        probe.cancel()
        await asyncio.wait_for(calls.make(fails=False), 1)

    asyncio.run(run())


def test_pauses_that_help_nothing_stop_the_run_with_the_reason():
    async def run() -> int:
        calls = Calls(CircuitBreaker(2, 0.01, 2))
        await calls.fail(3)
        with pytest.raises(EndpointError, match="4 calls in a row, through 2 pauses, last: down") as caught:
            await calls.make(fails=True)
        assert caught.value.is_fatal
        assert "repeat the command" in caught.value.hint
        with pytest.raises(EndpointError):
            await calls.make(fails=False)
        return len(calls.times)

    assert asyncio.run(run()) == 4


def test_a_run_over_a_dead_endpoint_ends_by_itself(serve):
    endpoint = serve(*[(503, b"down")] * 100)
    settings = EndpointSettings(
        "m",
        endpoint.base_url,
        max_attempts=50,
        backoff_seconds=0.0,
        max_connections=2,
        max_failures=5,
        pause_seconds=0.05,
        max_pauses=2,
    )

    async def run() -> list[object]:
        client = EndpointClient(settings)
        try:
            return await asyncio.gather(
                *(client.complete(MESSAGES, []) for _ in range(2)), return_exceptions=True
            )
        finally:
            await client.close()

    errors = asyncio.run(run())
    assert [type(error) for error in errors] == [EndpointError] * 2
    assert all(error.is_fatal for error in errors)
    # Five failures, one more that was on its way, and one probe behind each pause.
    assert 7 <= len(endpoint.requests) <= 8
