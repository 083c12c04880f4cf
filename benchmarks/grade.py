"""Throughput of grading: a mock endpoint of fixed latency, a scripted conversation of ten calls a group, many groups.

The endpoint is a process of its own on a real socket; it answers each call after the latency, nine times with a tool
call, then with a ranking. Ideal is groups x 10 x latency / concurrency; the span is from the first request that the
endpoint got to the last answer that it gave, the wall from start to exit of `gagar grade`. CPU is that of the whole
`gagar` process, start-up included, which is told by itself too. Goals: span at most 1.6 x ideal at 50 ms and 1.05 x at
1 s, 20 ms of CPU a group, 150 MB at any number of groups. Beside each case the bare SDK, and inspect_ai where there is an
interpreter with it, make as many calls of about the same sizes, as a measure of the machine in that moment; the ratio is
gagar's CPU to theirs, start-up of both included. The machine's other load shows in wall and span, not in CPU.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

N_CALLS = 10
N_PASSING, N_FAILING = 4, 4
CASES = ((200, 0.05), (200, 1.0), (1000, 0.05))
CONCURRENCY = 64
# What is installed has its bytecode, gagar and its peers alike; without, each start compiles all of it.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class Measured:
    """One run of `gagar grade`."""

    wall_seconds: float
    span_seconds: float
    cpu_seconds: float
    max_rss_mb: float
    n_requests: int
    max_in_flight: int
    n_graded: int


def script() -> list[bytes]:
    """The ten replies of a conversation, each a whole HTTP answer."""
    names = [f"c{number:02d}" for number in range(1, N_PASSING + 1)]
    calls: list[tuple[str, dict[str, object]]] = [
        ("overview", {}),
        *(("view_patch", {"candidate": name}) for name in names),
        ("compare_patches", {"candidates": names[:2]}),
        ("list_turns", {"candidate": names[0]}),
        ("view_turns", {"candidate": names[0], "turns": [1]}),
        ("view_test_output", {"candidate": "f01"}),
    ]
    scores = dict.fromkeys(("approach", "precision", "minimality", "side_effects", "consistency"), 5)
    entries = [
        {"id": name, "scores": scores, "flags": {}, "findings": [], "rationale": "sound"} for name in names
    ]
    calls.append(("submit_ranking", {"candidates": entries}))
    assert len(calls) == N_CALLS
    return [_answer(name, arguments) for name, arguments in calls]


def _answer(name: str, arguments: dict[str, object]) -> bytes:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    body = json.dumps(
        {
            "id": "mock",
            "object": "chat.completion",
            "created": 0,
            "model": "mock",
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050},
        }
    ).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Endpoint:
    """Knows how far a conversation is by the replies of its own that come back in the request."""

    def __init__(self, latency: float) -> None:
        self._latency = latency
        self._answers = script()
        self._first = self._last = 0.0
        self._n_requests = self._n_in_flight = self._max_in_flight = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                if head.startswith(b"GET"):
                    writer.write(self._figures())
                    continue
                length = next(
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                )
                body = await reader.readexactly(length)
                await self._reply(body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _reply(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        arrived = time.monotonic()
        self._first = self._first or arrived
        self._n_requests += 1
        self._n_in_flight += 1
        self._max_in_flight = max(self._max_in_flight, self._n_in_flight)
        n_replies = body.count(b'"tool_call_id"')
        await asyncio.sleep(self._latency - (time.monotonic() - arrived))
        self._n_in_flight -= 1
        writer.write(self._answers[min(n_replies, N_CALLS - 1)])
        await writer.drain()
        self._last = time.monotonic()

    def _figures(self) -> bytes:
        body = json.dumps([self._last - self._first, self._n_requests, self._max_in_flight]).encode()
        return f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def run_endpoint(latency: float, port: "multiprocessing.Queue[int]") -> None:
    async def main() -> None:
        server = await asyncio.start_server(
            Endpoint(latency).serve, "127.0.0.1", 0, limit=2**24, backlog=1024
        )
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


async def figures(port: int) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    body = await reader.readexactly(int(head.split(b":")[1]))
    writer.close()
    found: list[float] = json.loads(body)
    return found


def write_dump(path: Path, n_groups: int) -> None:
    """Groups of eight attempts with patches, logs of twelve turns and test outputs: about 100 KB a group."""
    with path.open("w") as stream:
        for group in range(n_groups):
            for number in range(N_PASSING + N_FAILING):
                passed = number < N_PASSING
                stream.write(json.dumps(_record(group, number, passed=passed)) + "\n")


def _record(group: int, number: int, *, passed: bool) -> dict[str, object]:
    added = "".join(f"+    value_{line} = step_{number}(value_{line - 1})\n" for line in range(1, 25))
    patch = f"diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1,1 +1,25 @@\n def run(value_0):\n{added}"
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "bash", "arguments": '{"command": "pytest -q"}'},
    }
    messages: list[dict[str, object]] = [{"role": "user", "content": "Make run() apply every step."}]
    for turn in range(12):
        messages.append({"role": "assistant", "content": f"Turn {turn}: look.", "tool_calls": [call]})
        messages.append({"role": "tool", "content": f"line of output {turn} of {number}\n" * 25})
    return {
        "group_id": f"task-{group}",
        "trajectory_id": f"task-{group}-{number}",
        "reward": float(passed),
        "resolved": passed,
        "problem_statement": "Make run() apply every step.",
        "messages": messages,
        "model_patch": patch,
        "test_output": "1 passed\n" if passed else "E assert 1 == 2\n1 failed\n",
    }


def measure(folder: Path, n_groups: int, latency: float, *, profile: str | None) -> Measured:
    dump = folder / f"{n_groups}.jsonl"
    if not dump.exists():
        write_dump(dump, n_groups)
    endpoint, port = start_endpoint(latency)
    program = ["-m", "cProfile", "-o", profile, "-m", "gagar_cli"] if profile else ["-m", "gagar_cli"]
    command = [
        *(sys.executable, *program, "grade", str(dump), "-o", str(folder / "r.jsonl"), "--overwrite", "-q"),
        *("--model", "mock", "--base-url", f"http://127.0.0.1:{port}/v1", "--concurrency", str(CONCURRENCY)),
        *("--sandbox", "inspect-only", "--json"),
    ]
    started = time.monotonic()
    result, usage = _run(command, folder / "summary.json")
    wall_seconds = time.monotonic() - started
    span_seconds, n_requests, max_in_flight = asyncio.run(figures(port))
    endpoint.terminate()
    endpoint.join()
    return Measured(
        wall_seconds,
        span_seconds,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss / 1024,
        int(n_requests),
        int(max_in_flight),
        result["n_graded"],
    )


def _run(command: list[str], summary: Path) -> tuple[dict[str, int], "os.struct_rusage"]:
    with summary.open("wb") as stream:
        opened = [(os.POSIX_SPAWN_DUP2, stream.fileno(), 1)]
        process = os.posix_spawn(command[0], command, ENVIRONMENT, file_actions=opened)
        _, status, usage = os.wait4(process, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"gagar failed: {summary.read_text()}")
    found: dict[str, int] = json.loads(summary.read_text())
    return found, usage


async def bare(port: int, n_groups: int, n_chars: int) -> None:
    """The same calls by the bare SDK: no tools, no evidence, no ledger; each adds `n_chars` to the conversation."""
    import httpx2
    from openai import AsyncOpenAI

    limits = httpx2.Limits(max_connections=CONCURRENCY, max_keepalive_connections=CONCURRENCY)
    waiting = iter(range(n_groups))

    async def work(client: AsyncOpenAI) -> None:
        for _ in waiting:
            messages: list[dict[str, object]] = [{"role": "system", "content": "x" * n_chars}]
            for _ in range(N_CALLS):
                answer = await client.post(
                    "/chat/completions", cast_to=object, body={"model": "m", "messages": messages}
                )
                messages.append(answer["choices"][0]["message"])  # type: ignore[index]
                messages.append({"role": "tool", "tool_call_id": "call_1", "content": "y" * n_chars})

    async with AsyncOpenAI(
        api_key="none",
        base_url=f"http://127.0.0.1:{port}/v1",
        max_retries=0,
        http_client=httpx2.AsyncClient(limits=limits, trust_env=False, timeout=60),
    ) as client:
        await asyncio.gather(*(work(client) for _ in range(CONCURRENCY)))


def measure_other(python: str, script: str, n_groups: int, latency: float) -> tuple[float, float]:
    """CPU seconds of the process of a peer that does the same job, and the span of its calls."""
    endpoint, port = start_endpoint(latency)
    if script == __file__:
        command = [python, script, "--bare", str(port), "--groups", str(n_groups)]
    else:
        command = [python, script, str(n_groups), f"http://127.0.0.1:{port}/v1", str(CONCURRENCY)]
    process = os.posix_spawn(command[0], command, ENVIRONMENT)
    _, status, usage = os.wait4(process, 0)
    assert status == 0
    span_seconds, _, _ = asyncio.run(figures(port))
    endpoint.terminate()
    endpoint.join()
    return usage.ru_utime + usage.ru_stime, span_seconds


def start_endpoint(latency: float) -> tuple[multiprocessing.Process, int]:
    ports: multiprocessing.Queue[int] = multiprocessing.Queue()
    endpoint = multiprocessing.Process(target=run_endpoint, args=(latency, ports), daemon=True)
    endpoint.start()
    return endpoint, ports.get()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, help="one case only: so many groups")
    parser.add_argument("--latency", type=float, default=0.05, help="of that case, in seconds")
    parser.add_argument("--profile", help="write cProfile's figures of that case to this file")
    parser.add_argument(
        "--inspect", metavar="PYTHON", help="an interpreter with inspect_ai, for the same job"
    )
    parser.add_argument("--bare", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        asyncio.run(bare(options.bare, options.groups, 3000))
        return
    cases = [(options.groups, options.latency)] if options.groups else CASES
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        start_up = measure(folder, 1, 0.0, profile=None)
        print(f"one group without latency: {start_up.cpu_seconds:.2f} s CPU, {start_up.max_rss_mb:.0f} MB")
        print(
            "groups latency  ideal   span (x ideal)   wall   CPU ms/group (without start-up)   MB  in flight  graded"
        )
        for n_groups, latency in cases:
            found = measure(folder, n_groups, latency, profile=options.profile)
            ideal = n_groups * N_CALLS * latency / CONCURRENCY
            cpu = 1000 * found.cpu_seconds / n_groups
            net = 1000 * (found.cpu_seconds - start_up.cpu_seconds) / n_groups
            print(
                f"{n_groups:6} {latency:6.2f}s {ideal:6.2f} {found.span_seconds:6.2f} ({found.span_seconds / ideal:5.2f})"
                f" {found.wall_seconds:8.2f} {cpu:8.1f} ({net:.1f}) {found.max_rss_mb:22.0f} {found.max_in_flight:8}"
                f" {found.n_graded:8}"
            )
            peers = {"the bare SDK": (sys.executable, __file__)}
            if options.inspect:
                peers["inspect_ai"] = (options.inspect, str(Path(__file__).with_name("inspect_job.py")))
            for name, (python, script) in peers.items():
                cpu_seconds, span_seconds = measure_other(python, script, n_groups, latency)
                print(
                    f"  {name}: span {span_seconds / ideal:.2f} x ideal, {1000 * cpu_seconds / n_groups:.1f} ms CPU a"
                    f" group; gagar takes {found.cpu_seconds / cpu_seconds:.2f} x that"
                )


if __name__ == "__main__":
    main()
