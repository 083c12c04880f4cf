"""What grading costs: calls, tokens, seconds and money, added up; and when a run has spent what it may.

Tokens that were read from the endpoint's cache are part of the input tokens, as the endpoints report them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_TOO_MANY = 2**63
"""No count and no time of anything; from here on it is no number for any reader."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Money for a million tokens, in whatever currency."""

    per_input: float = 0.0
    per_output: float = 0.0
    per_cached: float | None = None
    """None: cached input costs as much as other input."""


@dataclass(frozen=True, slots=True)
class Spending:
    """Calls, tokens and seconds of one group or of many."""

    n_calls: int = 0
    n_checks: int = 0
    """Commands run in sandboxes."""
    n_input_tokens: int = 0
    n_cached_tokens: int = 0
    """Of the input."""
    n_output_tokens: int = 0
    seconds: float = 0.0

    @property
    def n_tokens(self) -> int:
        """Input and output together."""
        return self.n_input_tokens + self.n_output_tokens

    def __add__(self, other: "Spending") -> "Spending":
        return Spending(
            self.n_calls + other.n_calls,
            self.n_checks + other.n_checks,
            self.n_input_tokens + other.n_input_tokens,
            self.n_cached_tokens + other.n_cached_tokens,
            self.n_output_tokens + other.n_output_tokens,
            self.seconds + other.seconds,
        )

    def to_record(self) -> dict[str, int | float]:
        """As JSON: the same names in every summary."""
        return {
            "n_calls": self.n_calls,
            "n_checks": self.n_checks,
            "n_input_tokens": self.n_input_tokens,
            "n_cached_tokens": self.n_cached_tokens,
            "n_output_tokens": self.n_output_tokens,
            "grading_seconds": round(self.seconds, 3),
        }

    def cost(self, prices: Prices) -> float:
        """The money, in the currency of the prices.

        >>> Spending(n_input_tokens=3_000_000, n_cached_tokens=1_000_000).cost(Prices(2.0, 8.0, 0.5))
        4.5
        """
        per_cached = prices.per_input if prices.per_cached is None else prices.per_cached
        n_cached = min(self.n_cached_tokens, self.n_input_tokens)
        n_fresh = self.n_input_tokens - n_cached
        spent = n_fresh * prices.per_input + n_cached * per_cached + self.n_output_tokens * prices.per_output
        return spent / 1e6


def spending_of(grader: Mapping[str, Any]) -> Spending:
    """What a ranking's `grader` says that the group took; what is missing or no number counts 0."""
    tokens = grader.get("tokens")
    tokens = tokens if isinstance(tokens, Mapping) else {}
    return Spending(
        n_calls=_count(grader.get("calls")),
        n_checks=_count(grader.get("checks")),
        n_input_tokens=_count(tokens.get("in")),
        n_cached_tokens=_count(tokens.get("cached")),
        n_output_tokens=_count(tokens.get("out")),
        seconds=_number(grader.get("seconds")),
    )


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may spend before it takes no new groups; None for no limit."""

    max_tokens: int | None = None
    max_cost: float | None = None

    def exceeded_by(self, spent: Spending, prices: Prices | None) -> str | None:
        """The limit that is reached, in words; None while there is room."""
        if self.max_tokens is not None and spent.n_tokens >= self.max_tokens:
            return f"--max-tokens-total {self.max_tokens:,} is used up ({spent.n_tokens:,} tokens)"
        if self.max_cost is not None and prices is not None and spent.cost(prices) >= self.max_cost:
            return f"--max-cost {self.max_cost:g} is used up ({spent.cost(prices):.4g})"
        return None


def _count(value: object) -> int:
    return value if type(value) is int and 0 < value < _TOO_MANY else 0


def _number(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _TOO_MANY
    return float(value) if is_number else 0.0  # type: ignore[arg-type]
