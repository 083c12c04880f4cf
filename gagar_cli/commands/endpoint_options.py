"""The options that say which model is asked, where and how: the same in every command that asks one."""

import json
import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NoReturn
from urllib.parse import SplitResult, urlsplit

import typer

from gagar_cli.errors import UsageError
from gagar_cli.grader.endpoint import OFFLINE_MODEL, EndpointSettings

Model = Annotated[str, typer.Option("--model", help="grader model; `offline` is the rule-based one")]
BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", help="OpenAI-compatible endpoint, ending in /v1  [env: OPENAI_BASE_URL]"),
]
ApiKeyEnv = Annotated[
    str,
    typer.Option("--api-key-env", help="name of the variable that holds the key; none needed on loopback"),
]
Protocol = Annotated[
    Literal["auto", "tools", "json-schema", "text"],
    typer.Option(
        "--protocol", help="how the model calls tools; `auto` takes the first that the endpoint can do"
    ),
]
Temperature = Annotated[float | None, typer.Option("--temperature", help="sent only where given")]
ModelSeed = Annotated[
    int | None, typer.Option("--model-seed", help="the endpoint's seed, sent only where given")
]
MaxContextTokens = Annotated[
    int,
    typer.Option(
        "--max-context-tokens", min=4_000, help="of one call: older tool results give way beyond it"
    ),
]
MaxOutputTokens = Annotated[int | None, typer.Option("--max-output-tokens", min=1, help="of one reply")]
ExtraBody = Annotated[
    str | None, typer.Option("--extra-body", metavar="JSON", help="more fields of each request")
]
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME:VALUE", help="one more header of each request"),
]
CallSeconds = Annotated[float, typer.Option("--call-seconds", min=1, help="deadline of one call")]
CallAttempts = Annotated[
    int, typer.Option("--call-attempts", min=1, help="tries of one call, with growing waits between")
]


def endpoint_settings(
    *,
    model: str,
    base_url: str | None,
    api_key_env: str,
    temperature: float | None,
    model_seed: int | None,
    max_output_tokens: int | None,
    extra_body: str | None,
    headers: list[str] | None,
    call_seconds: float,
    call_attempts: int,
    concurrency: int,
    protocol: Literal["auto", "tools", "json-schema", "text"] = "auto",
    model_flag: str = "--model",
) -> EndpointSettings:
    """The endpoint's settings from the flags and the environment; `model_flag` is what named the model.

    Raises:
        UsageError: an address, a key, a header or a body that cannot be used.
    """
    address = _check_url(base_url, model, model_flag)
    return EndpointSettings(
        model=model,
        base_url=address,
        api_key=_read_key(api_key_env, address),
        protocol=protocol,
        temperature=temperature,
        seed=model_seed,
        max_output_tokens=max_output_tokens,
        extra_body=_parse_object(extra_body),
        headers=_parse_headers(headers),
        call_seconds=call_seconds,
        max_attempts=call_attempts,
        max_connections=concurrency,
    )


def _check_url(base_url: str | None, model: str, model_flag: str) -> str | None:
    # The offline model leaves this process only where the command line says so.
    if model != OFFLINE_MODEL:
        base_url = base_url or os.environ.get("OPENAI_BASE_URL")
    elif base_url is None:
        return None
    if base_url is None:
        raise UsageError(
            f"{model_flag} {model} needs --base-url",
            f"`{model_flag} {OFFLINE_MODEL}` is the rule-based grader that needs none",
        )
    parts = _split(base_url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            "--base-url is not an http or https address", "for example `http://127.0.0.1:8000/v1`"
        )
    if parts.username or parts.password:
        raise UsageError(
            "--base-url holds credentials", "put the key into the variable that `--api-key-env` names"
        )
    return base_url


def _split(address: str) -> SplitResult | None:
    try:
        return urlsplit(address)
    except ValueError:
        return None  # such as brackets that are not closed


def _read_key(variable: str, base_url: str | None) -> str | None:
    """The key; none is needed by the offline model or on loopback."""
    key = os.environ.get(variable, "").strip()
    if any(not char.isprintable() or ord(char) > 126 for char in key):
        raise UsageError(f"{variable} holds characters that no key has", "set it again without line breaks")
    if key:
        return key
    host = urlsplit(base_url or "").hostname or ""
    if base_url is None or host == "localhost" or host.startswith("127.") or host == "::1":
        return None
    raise UsageError(
        f"{variable} is not set", "export the key under that name, or name another with `--api-key-env`"
    )


def _parse_object(text: str | None) -> Mapping[str, Any]:
    if text is None:
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise UsageError(f"--extra-body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError("--extra-body is no JSON object", "for example `--extra-body '{\"top_k\": 20}'`")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}")


def _parse_headers(values: list[str] | None) -> Mapping[str, str]:
    headers = {}
    for value in values or []:
        name, colon, content = value.partition(":")
        if not colon or not name.strip():
            raise UsageError("--header is not of the form NAME:VALUE")
        headers[name.strip()] = content.strip()
    return headers
