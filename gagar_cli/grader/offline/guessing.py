"""The offline model's guess at who wrote an attempt: it cannot know, and draws by the hash of what it was asked."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from gagar_cli.grader.offline.planning import SUBMIT, Call


def plan_guess(schemas: Sequence[Mapping[str, Any]], digest: str) -> Call | None:
    """The call that guesses, where the submitting tool asks for policies; else None."""
    for tool in schemas:
        if tool["function"]["name"] != SUBMIT:
            continue
        entry: Any = tool["function"].get("parameters")
        for key in ("properties", "candidates", "items", "properties"):
            entry = entry.get(key) if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or "policy" not in entry:
            continue
        names, policies = (list(entry[key].get("enum", ())) for key in ("id", "policy"))
        return Call(
            SUBMIT,
            {
                "candidates": [
                    {"id": name, "policy": policies[_draw(digest, name) % len(policies)]} for name in names
                ]
            },
        )
    return None


def _draw(digest: str, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{digest}:{name}".encode()).digest()[:4])
