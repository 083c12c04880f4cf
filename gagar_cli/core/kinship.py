"""Judges that may be kin of what they judge: models tend to prefer their own kind's work, so a report names them.

Only names are known, so only names are compared: a word of letters that both have, and that is no common word of model
names. It is a hint for people, not a finding.
"""

import re
from collections.abc import Iterable

_WORD = re.compile(r"[a-z]{3,}")
_COMMON = frozenset(
    {
        "agent",
        "agents",
        "base",
        "chat",
        "code",
        "coder",
        "default",
        "eval",
        "exp",
        "experimental",
        "fast",
        "flash",
        "high",
        "instruct",
        "large",
        "latest",
        "lite",
        "low",
        "max",
        "medium",
        "mini",
        "model",
        "models",
        "nano",
        "online",
        "openrouter",
        "policy",
        "preview",
        "pro",
        "run",
        "runs",
        "small",
        "step",
        "swe",
        "test",
        "the",
        "thinking",
        "turbo",
        "ultra",
        "vllm",
    }
)


def find_kin(judge: str, names: Iterable[str]) -> list[tuple[str, str]]:
    """(name, shared word) of each name that shares a telling word with the judge's.

    >>> find_kin("gpt-5-mini", ["gpt-4-0125-preview", "deepseek-coder", "my-gpt"])
    [('gpt-4-0125-preview', 'gpt'), ('my-gpt', 'gpt')]
    """
    own = _words(judge)
    found = []
    for name in names:
        shared = sorted(own & _words(name), key=len, reverse=True)
        if shared:
            found.append((name, shared[0]))
    return found


def _words(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(name.lower())) - _COMMON
