"""What is known of an endpoint before the first call: where it is, how it is asked, how patient the run is with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

OFFLINE_MODEL = "offline"

Protocol = Literal["tools", "json-schema", "text"]
PROTOCOLS: tuple[Protocol, ...] = ("tools", "json-schema", "text")
"""From what an endpoint must do most for to what any can: `auto` goes down this list."""

UNREACHABLE_HINT = "is the server up? check `--base-url`; `gagar doctor --base-url …` tells more"


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Where the grader model is, and how it is asked."""

    model: str
    base_url: str | None = None
    """None only with the offline model, which is mounted in this process."""
    api_key: str | None = field(default=None, repr=False)
    protocol: Literal["auto", "tools", "json-schema", "text"] = "auto"
    """How the grader calls tools; `auto` takes the first that the endpoint can do."""
    temperature: float | None = None
    """None leaves it to the endpoint: some models refuse the parameter."""
    seed: int | None = None
    max_output_tokens: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    call_seconds: float = 600.0
    max_attempts: int = 6
    backoff_seconds: float = 1.0
    """Upper end of the first wait; doubles with each retry, jittered from 0."""
    max_connections: int = 64
    """Calls of the run that are on their way at a time."""
    max_failures: int = 20
    """Failed calls in a row, of all groups together, after which the run pauses; at least twice the connections."""
    pause_seconds: float = 30.0
    """How long it pauses before a single call tries again."""
    max_pauses: int = 3
    """Pauses in a row after which the run stops, to be gone on with later."""
