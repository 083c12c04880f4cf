"""What all summaries share: the number of their schema, and names that fit what the keys of other summaries mean."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

SCHEMA_VERSION = 1
"""Of every JSON object that is printed or written as a summary: another one where a key is renamed, removed or means
something else; a key that is added leaves it as it is."""


def versioned(record: Mapping[str, object]) -> dict[str, object]:
    """A summary with the number of its schema in front.

    >>> versioned({"n_groups": 3})
    {'schema_version': 1, 'n_groups': 3}
    """
    return {"schema_version": SCHEMA_VERSION, **record}


def by_start(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by the part of a reason before its colon: what follows may be different in every group.

    >>> by_start({"endpoint: 503": 2, "endpoint: no answer": 1, "late": 1})
    {'endpoint': 3, 'late': 1}
    """
    summed: Counter[str] = Counter()
    for reason, n in counts.items():
        summed[reason.partition(":")[0]] += n
    return dict(summed.most_common())


def renamed(record: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The record with other names for some keys, in the same order.

    >>> renamed({"tiers": 1, "flags": 2}, {"tiers": "n_by_tier"})
    {'n_by_tier': 1, 'flags': 2}
    """
    return {names.get(name, name): value for name, value in record.items()}
