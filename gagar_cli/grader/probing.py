"""What an endpoint can do, found out by asking it: a few calls of the kind that grading makes.

The probes hold the first turns of a real conversation about a made-up group, so that what is found is what grading
will meet. Each probe stands by itself: one that fails is told and the next one is tried.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from gagar_cli.core.schema import Group, GroupKey, Task, Trajectory
from gagar_cli.errors import ContextOverflowError, EndpointError
from gagar_cli.grader.client import EndpointClient
from gagar_cli.grader.endpoint import PROTOCOLS, UNREACHABLE_HINT, EndpointSettings, Protocol
from gagar_cli.grader.prompts import opening
from gagar_cli.grader.protocols import Rendering, read_reply
from gagar_cli.grader.protocols_text import BadActionError
from gagar_cli.grader.refusals import ParameterRefusedError, ProtocolRefusedError
from gagar_cli.grader.replies import Reply
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.window import MAX_CHARS_PER_TOKEN
from gagar_cli.grader.workspace import Workspace

PROBE_OUTPUT_TOKENS = 2_048
"""Room for a model that thinks before it calls."""
LONG_PROMPT_CHARS = 24_000
_CONTEXT_NAMES = ("max_model_len", "context_length", "context_window", "max_context_length", "n_ctx")
_PATCH = "--- a/total.py\n+++ b/total.py\n@@ -1 +1 @@\n-{}\n+{}\n"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    state: str
    """`yes`, `no` or `unknown`, or a figure."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class EndpointReport:
    """What was found, and what `grade --protocol auto` would come to."""

    model: str
    findings: tuple[Finding, ...]
    protocol: Protocol | None
    """None where the endpoint cannot be used."""

    @property
    def problem(self) -> str:
        """What failed first; empty where nothing did."""
        return next(
            (one.detail for one in self.findings if one.state == "no" and one.check != "model list"), ""
        )

    def to_record(self) -> dict[str, object]:
        """The result as a JSON object."""
        checks = {one.check: {"state": one.state, "detail": one.detail} for one in self.findings}
        return {"model": self.model, "checks": checks, "protocol": self.protocol}


async def probe(settings: EndpointSettings) -> EndpointReport:
    """Ask an endpoint what it can do."""
    cap = settings.max_output_tokens or PROBE_OUTPUT_TOKENS
    probing = _Probing(replace(settings, max_output_tokens=cap, max_attempts=min(2, settings.max_attempts)))
    try:
        return await probing.run()
    finally:
        await probing.client.close()


class _Probing:
    def __init__(self, settings: EndpointSettings) -> None:
        self.settings = settings
        self.client = EndpointClient(replace(settings, protocol="tools"))
        self.findings: list[Finding] = []
        self._workspace = Workspace(_probe_group(), seed=0, repository=None)
        self._toolbox = Toolbox(self._workspace, None)
        self._rendering = Rendering(self._toolbox.schemas)

    async def run(self) -> EndpointReport:
        models = await self._look_at_models()
        if not await self._say_hello():
            return EndpointReport(self.settings.model, tuple(self.findings), None)
        works = {protocol: await self._try_protocol(protocol) for protocol in PROTOCOLS}
        await self._look_at_context(models)
        chosen: Protocol
        if self.settings.protocol == "auto":
            # Text is what any model can be asked for: how well it does is for the run to show.
            chosen = next((one for one in PROTOCOLS if works[one]), "text")
        else:
            chosen = self.settings.protocol
        return EndpointReport(self.settings.model, tuple(self.findings), chosen)

    def _note(self, check: str, state: str | bool, detail: str = "") -> None:
        self.findings.append(
            Finding(check, {True: "yes", False: "no"}[state] if isinstance(state, bool) else state, detail)
        )

    async def _look_at_models(self) -> Sequence[Mapping[str, Any]]:
        try:
            document = await self.client.read("/models")
        except EndpointError as error:
            self._note("model list", "no", error.message)
            return ()
        models = document.get("data") if isinstance(document, dict) else None
        models = [one for one in models if isinstance(one, dict)] if isinstance(models, list) else []
        names = [str(one.get("id")) for one in models]
        is_listed = self.settings.model in names
        shown = ", ".join(names[:5]) or "empty"
        self._note("model list", is_listed, "" if is_listed else f"it lists {shown}")
        return [one for one in models if one.get("id") == self.settings.model] or models[:1]

    async def _say_hello(self) -> bool:
        """Whether the endpoint answers at all; what one answer tells of it."""
        messages = [{"role": "user", "content": "Reply with one word: ready."}]
        started = time.monotonic()
        try:
            reply = await self.client.complete(messages, ())
        except EndpointError as error:
            is_refused = "status 401" in error.message or "status 403" in error.message
            self._note("reachable", is_refused or "status" in error.message, error.message)
            # Where nobody answers, the hint is to ask the doctor.
            hint = "" if error.hint == UNREACHABLE_HINT else error.hint or ""
            self._note("authorised", "no" if is_refused else "unknown", hint)
            return False
        self._note("reachable", "yes")
        self._note("authorised", "yes", "" if self.settings.api_key else "no key was sent")
        self._note("latency", f"{time.monotonic() - started:.2f} s", "one short call")
        self._note("bound of a reply", self.client.cap_name or "no", "the parameter that is taken")
        detail = "tokens are reckoned from characters" if reply.is_estimated else ""
        self._note("usage reported", not reply.is_estimated, detail)
        return True

    async def _try_protocol(self, protocol: Protocol) -> bool:
        name = {"tools": "native tool calls", "json-schema": "JSON schema", "text": "JSON in text"}[protocol]
        messages: list[dict[str, Any]] = [dict(one) for one in opening(self._workspace)]
        messages[-1]["content"] += " Behind the overview, view the patches of c01 and c02 in one reply."
        try:
            first = await self._converse(messages, protocol)
            second = await self._converse(messages, protocol)
        except (EndpointError, ProtocolRefusedError, BadActionError) as error:
            self._note(name, "no", getattr(error, "message", str(error)))
            return False
        detail = await self._is_enforced() if protocol == "json-schema" else ""
        self._note(name, "yes", detail)
        if protocol == "tools":
            n_calls = max(len(first.calls), len(second.calls))
            self._note("parallel tool calls", n_calls > 1, f"{n_calls} in one reply")
            cached = f"{second.n_cached_tokens} of {second.n_input_tokens} tokens of a second call"
            self._note("cached tokens reported", second.n_cached_tokens > 0, cached)
        return True

    async def _converse(self, messages: list[dict[str, Any]], protocol: Protocol) -> Reply:
        """One turn: its reply and its results are put behind the messages."""
        while True:
            request = self._rendering.request(
                messages, protocol, passes_reasoning=self.client.passes_reasoning
            )
            try:
                reply = read_reply(await self.client.ask(request), protocol)
                break
            except ParameterRefusedError:
                continue
        names = {schema["function"]["name"] for schema in self._toolbox.schemas}
        for call in reply.calls:
            if call.arguments is None or call.name not in names:
                raise BadActionError(f"a call was not usable: {call.name}({call.raw_arguments[:80]})")
        messages.append(reply.message)
        for call in reply.calls:
            answer = await self._toolbox.call(call.name, call.arguments or {})
            messages.append({"role": "tool", "tool_call_id": call.call_id, "content": answer})
        return reply

    async def _is_enforced(self) -> str:
        """Whether a schema holds a model that is asked for something else."""
        prose = [{"role": "user", "content": "Say in one short sentence what a hash map is. No JSON."}]
        try:
            read_reply(await self.client.ask(self._rendering.request(prose, "json-schema")), "json-schema")
        except (EndpointError, ProtocolRefusedError, BadActionError):
            return "followed when told, not enforced"
        return "enforced"

    async def _look_at_context(self, models: Sequence[Mapping[str, Any]]) -> None:
        window = await self._served_window() or next(
            (one[name] for one in models for name in _CONTEXT_NAMES if type(one.get(name)) is int), None
        )
        self._note("context length", f"{window} tokens" if window else "unknown")
        text = "The quick brown fox jumps over the lazy dog near the river bank. "
        filler = text * (LONG_PROMPT_CHARS // len(text))
        messages = [{"role": "user", "content": f"{filler}\nReply with one word: ready."}]
        try:
            reply = await self.client.complete(messages, ())
        except ContextOverflowError:
            self._note("long prompt", "no", f"{len(filler)} characters are longer than the window")
        except EndpointError as error:
            self._note("long prompt", "unknown", error.message)
        else:
            is_whole = reply.is_estimated or len(filler) / reply.n_input_tokens < MAX_CHARS_PER_TOKEN
            counted = f"{len(filler)} characters were counted as {reply.n_input_tokens} tokens"
            detail = counted if is_whole else f"{counted}: the prompt was cut without an error"
            self._note("long prompt", is_whole, detail)

    async def _served_window(self) -> int | None:
        """What a llama.cpp server says of itself; others have nothing there."""
        if self.settings.base_url is None:
            return None
        parts = urlsplit(self.settings.base_url)
        try:
            document = await self.client.read(f"{parts.scheme}://{parts.netloc}/props")
        except EndpointError:
            return None
        served = document.get("default_generation_settings") if isinstance(document, dict) else None
        window = served.get("n_ctx") if isinstance(served, dict) else None
        return window if type(window) is int else None


def _probe_group() -> Group:
    patches = [
        _PATCH.format(json.dumps(name), json.dumps(f"{name} rows")) for name in ("first", "second", "third")
    ]
    trajectories = [
        Trajectory(f"probe-{number}", float(number < 2), number < 2, model_patch=patch)
        for number, patch in enumerate(patches)
    ]
    return Group(GroupKey(None, "probe"), Task("probe", "name the rows"), tuple(trajectories))
