"""What waits beside a run for its end, and then removes from a local engine what the run was just making.

A container that runs ends with its owner by itself. One that was made and not started yet does not, nor does one that
the engine is still making, nor a volume: these are looked for by their owner's labels, until none has come up for a
while. Run as a program of its own, with the standard library alone, so that it is there in no time:

    python -I -S docker_guard.py OWNER_PID SOCKET '{"label": ["gagar.pid=1", …]}'

It waits for the end of its input, and of its parent. A byte in its input says that there is nothing to do. Engines that
are not local are not looked at: the next run does that.
"""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Container, Iterator, Mapping
from typing import Any
from urllib.parse import quote

_WATCH_SECONDS = 5.0
"""For which an engine may still be making what it was asked for."""
_LOOK_SECONDS = 0.1
_DEATH_SECONDS = 0.005
_OWN_END_SECONDS = 1.5
"""For what runs to end by itself: helping there only keeps the engine from it."""
_AT_ONCE = ("created", "exited", "dead")
_ANSWER_SECONDS = 10.0


class _Engine(http.client.HTTPConnection):
    """One question to an engine behind a socket of this machine."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_ANSWER_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(path: str, method: str, url: str) -> Any:
    """The engine's answer; None where it has none or does not want to."""
    with contextlib.closing(_Engine(path)) as engine:
        try:
            engine.request(method, url)
            answer = engine.getresponse()
            content = answer.read()
            return json.loads(content) if answer.status == http.client.OK else None
        except (OSError, http.client.HTTPException, ValueError):
            return None


def remove_all(path: str, filters: str, states: Container[str]) -> None:
    """One look, and the removal of what it finds, all at once: the engine takes its time for each."""
    wanted = quote(filters)
    containers = ask(path, "GET", f"/containers/json?all=1&filters={wanted}") or ()
    removals = [
        threading.Thread(target=ask, args=(path, "DELETE", f"/containers/{one['Id']}?force=1&v=1"))
        for one in containers
        if one["State"] in states
    ]
    for removal in removals:
        removal.start()
    for removal in removals:
        removal.join()
    volumes = ask(path, "GET", f"/volumes?filters={wanted}") or {}
    for volume in volumes.get("Volumes") or ():
        ask(path, "DELETE", f"/volumes/{quote(volume['Name'], safe='')}?force=1")


@contextlib.contextmanager
def guarded_engine(address: str, labels: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes] | None"]:
    """While this lasts a guard waits for our end; what carries these labels is removed then. None: nobody does."""
    path = address.removeprefix("unix://").removeprefix("http+unix://")
    if not path.startswith("/"):
        yield None
        return
    filters = json.dumps({"label": [f"{name}={value}" for name, value in labels.items()]})
    with subprocess.Popen(  # noqa: S603 - this file; the words are ours
        [sys.executable, "-I", "-S", __file__, str(os.getpid()), path, filters],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        # Ctrl-C in a terminal is for us.
        start_new_session=True,
    ) as guard:
        try:
            yield guard
        finally:
            assert guard.stdin is not None  # noqa: S101 - a pipe
            with contextlib.suppress(OSError, ValueError):
                guard.stdin.write(b".")
            with contextlib.suppress(OSError):
                guard.stdin.close()


def main() -> None:
    """Wait, then look again and again."""
    owner, path, filters = sys.argv[1:]
    if os.read(0, 1):
        return
    until = time.monotonic() + _WATCH_SECONDS
    # A dying process loses its files first, and its children last. One that lives has only lost us.
    while os.getppid() == int(owner):
        if time.monotonic() > until:
            return
        time.sleep(_DEATH_SECONDS)
    own_end = time.monotonic() + _OWN_END_SECONDS
    while time.monotonic() < until:
        states = _AT_ONCE if time.monotonic() < own_end else (*_AT_ONCE, "running", "paused")
        remove_all(path, filters, states)
        time.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    main()
