import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gagar_cli.errors import EndpointError
from gagar_cli.grader.breaker import SPREAD_SHARE, CircuitBreaker
from gagar_cli.grader.client import EndpointClient, EndpointSettings
from gagar_cli.grader.replies import RetryableError

MESSAGES = [{"role": "user", "content": "hello"}]


class Calls:
    """Calls through a breaker, with when each was let through."""

    def __init__(self, breaker: CircuitBreaker) -> None:
        self.breaker = breaker
        self.times: list[float] = []

    async def make(self, *, fails: bool, seconds: float = 0.0, told: float | None = None) -> None:
        async with self.breaker.guard():
            self.times.append(time.monotonic())
            await asyncio.sleep(seconds)
            if fails:
                raise RetryableError("down", told)

    async def be_told(self, told: float, *, after: float = 0.0) -> None:
        with pytest.raises(RetryableError):
            await self.make(fails=True, seconds=after, told=told)

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


@pytest.mark.parametrize("header", [{"retry-after": "0.4"}, {"retry-after-ms": "400"}], ids=["s", "ms"])
@pytest.mark.parametrize("status", [429, 503])
def test_a_wait_that_one_call_is_told_holds_for_all_of_them(serve, chat, header, status):
    """The call that is told waits too, and none of them counts the wait as an attempt of its own."""
    endpoint = serve((status, b"slow down", header), *[chat(content="ok")] * 9)

    async def run() -> list[float]:
        client = EndpointClient(EndpointSettings("m", endpoint.base_url, max_attempts=2, backoff_seconds=0.0))
        told = asyncio.create_task(client.complete(MESSAGES, []))
        while not endpoint.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        started = time.monotonic()

        async def ask() -> float:
            await client.complete(MESSAGES, [])
            return time.monotonic() - started

        try:
            return await asyncio.gather(*(ask() for _ in range(8)))
        finally:
            await told
            await client.close()

    waits = asyncio.run(run())
    assert len(endpoint.requests) == 10
    assert min(waits) > 0.2


def test_calls_that_waited_as_told_come_back_spread():
    async def run() -> list[float]:
        calls = Calls(CircuitBreaker(99, 5.0, 2))
        await calls.be_told(0.4)
        told = time.monotonic()
        await asyncio.gather(*(calls.make(fails=False) for _ in range(40)))
        return [each - told for each in calls.times[1:]]

    times = asyncio.run(run())
    assert min(times) >= 0.39
    assert max(times) - min(times) > 0.4 * SPREAD_SHARE / 2


def test_a_longer_wait_that_comes_up_meanwhile_is_kept_too():
    async def run() -> float:
        calls = Calls(CircuitBreaker(99, 5.0, 2))
        told = [asyncio.create_task(calls.be_told(seconds, after=seconds / 2)) for seconds in (0.2, 0.3)]
        await asyncio.sleep(0.12)
        started = time.monotonic()
        await calls.make(fails=False)
        await asyncio.gather(*told)
        return calls.times[-1] - started

    # Told at 0.1 s to wait for 0.2 s, and at 0.15 s, before that is over, for 0.3 s.
    assert asyncio.run(run()) >= 0.3


def test_an_endpoint_that_only_ever_asks_for_patience_ends_the_run_and_says_so(serve):
    endpoint = serve(*[(429, b"later", {"retry-after": "0.1"})] * 100)
    settings = EndpointSettings(
        "m",
        endpoint.base_url,
        max_attempts=50,
        max_connections=2,
        max_failures=5,
        pause_seconds=0.05,
        max_pauses=2,
    )

    async def run() -> list[object]:
        client = EndpointClient(settings)
        try:
            calls = (client.complete(MESSAGES, []) for _ in range(2))
            return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 10)
        finally:
            await client.close()

    errors = asyncio.run(run())
    assert all(isinstance(error, EndpointError) and error.is_fatal for error in errors)
    assert "through 2 pauses, last: status 429" in errors[0].message
    assert 7 <= len(endpoint.requests) <= 8


def test_a_caller_is_told_of_a_pause_and_only_of_a_pause():
    """The pause is not its own doing, the call is."""
    told: list[float] = []

    @contextmanager
    def pausing() -> Iterator[None]:
        started = time.monotonic()
        yield
        told.append(time.monotonic() - started)

    async def run() -> None:
        breaker = CircuitBreaker(1, 0.2, 2)
        calls = Calls(breaker)
        async with breaker.guard(pausing):
            await asyncio.sleep(0.1)
        assert told == []
        await calls.fail(1)
        async with breaker.guard(pausing):
            await asyncio.sleep(0.3)

    asyncio.run(run())
    assert len(told) == 1
    assert 0.15 < told[0] < 0.3


def test_pauses_are_told_once_however_many_there_were():
    async def run() -> list[str | None]:
        breaker = CircuitBreaker(2, 0.01, 2)
        calls = Calls(breaker)
        notes = [breaker.note]
        await calls.fail(1)
        notes.append(breaker.note)
        await calls.fail(1)
        notes.append(breaker.note)
        await calls.fail(1)
        await calls.make(fails=False)
        notes.append(breaker.note)
        return notes

    told = "the endpoint failed 2 times in a row: calls paused 0.01 s, "
    assert asyncio.run(run()) == [None, None, f"{told}once", f"{told}2 times"]


def test_a_client_notes_the_pauses_of_its_run(serve, chat):
    endpoint = serve(*[(503, b"down")] * 4, *[chat(content="ok")] * 2)
    settings = EndpointSettings(
        "m", endpoint.base_url, backoff_seconds=0.0, max_connections=1, max_failures=4, pause_seconds=0.02
    )

    async def run() -> list[str]:
        client = EndpointClient(settings)
        try:
            for _ in range(2):
                await client.complete(MESSAGES, [])
        finally:
            await client.close()
        return client.notes

    assert asyncio.run(run()) == ["the endpoint failed 4 times in a row: calls paused 0.02 s, once"]


@pytest.mark.parametrize("max_attempts", [1, 9], ids=["one call", "the whole run"])
def test_where_nobody_listens_the_hint_is_to_look_at_the_server(max_attempts):
    settings = EndpointSettings(
        "m",
        "http://127.0.0.1:9/v1",
        max_attempts=max_attempts,
        backoff_seconds=0.0,
        max_connections=1,
        max_failures=2,
        pause_seconds=0.01,
        max_pauses=1,
    )

    async def run() -> None:
        client = EndpointClient(settings)
        try:
            await client.complete(MESSAGES, [])
        finally:
            await client.close()

    with pytest.raises(EndpointError, match="connection failed") as caught:
        asyncio.run(run())
    look = "is the server up? check `--base-url`; `gagar doctor --base-url …` tells more"
    assert caught.value.hint.startswith(look)
    assert ("repeat the command" in caught.value.hint) == caught.value.is_fatal == (max_attempts > 1)
