"""`gagar offline-endpoint`: the rule-based offline model on a socket."""

import socket
from typing import Annotated

import typer

from gagar_cli.console import write_note
from gagar_cli.errors import EndpointError

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_BACKLOG = 128


@app.command()
def offline_endpoint(
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="port to listen on, 0 for any free one")
    ],
    host: Annotated[
        str, typer.Option("--host", help="address to listen on; there is no authentication")
    ] = "127.0.0.1",
) -> None:
    """Serve the rule-based offline model over HTTP.

    It speaks chat completions with tool calls, needs no key, and is not a language model.

    Examples:
      gagar offline-endpoint --port 8731

      gagar grade dump.jsonl --model offline --base-url http://127.0.0.1:8731/v1 -o rankings.jsonl
    """
    import uvicorn

    from gagar_cli.grader.offline.app import app as endpoint

    with _listen(host, port) as listener:
        address, bound_port = listener.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        write_note(f"offline endpoint (rules, not a language model): http://{shown}:{bound_port}/v1")
        config = uvicorn.Config(endpoint, log_level="warning", access_log=False, lifespan="off")
        uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise EndpointError(
            f"cannot listen on {host}:{port}: {reason}", "choose another --port; 0 takes any free one"
        ) from error
