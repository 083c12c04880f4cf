import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--enable-logging=stderr",
)  # fmt: skip


class Opened(NamedTuple):
    """A page after a browser had it open for a while."""

    dom: str
    console: list[str]
    """Lines that the page wrote to the console, and what the browser refused it."""
    paths: list[str]
    """Everything that was asked of the server."""


@pytest.fixture
def open_in_chromium() -> Iterator[Callable[[str], Opened]]:
    """Open a page of a loopback server in headless Chromium."""
    if CHROMIUM is None:
        if os.environ.get("GAGAR_REQUIRE_CHROMIUM"):
            pytest.fail("chromium is required here and not installed")
        pytest.skip("chromium is not installed")
    paths: list[str] = []
    served = {"page": b""}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(served["page"] if self.path == "/" else b"")

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"

    def open_page(page: str) -> Opened:
        served["page"] = page.replace("http://payload.invalid/", address).encode()
        paths.clear()
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run(
                [
                    CHROMIUM,
                    *QUIET,
                    f"--user-data-dir={profile}",
                    "--virtual-time-budget=1500",
                    "--dump-dom",
                    address,
                ],
                capture_output=True,
                text=True,
                timeout=120,
            )
        console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        return Opened(done.stdout, console, [path for path in paths if path != "/favicon.ico"])

    yield open_page
    server.shutdown()
    server.server_close()
