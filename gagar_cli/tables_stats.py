"""Statistics of a dump as rich tables. Values come from results, never computed here."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gagar_cli.core.dump_statistics import DumpStatistics, Spread
from gagar_cli.core.ranking import TIERS
from gagar_cli.core.text import counted
from gagar_cli.stats import GradingFigures, StatsResult
from gagar_cli.tables import key_value_table, rows_table

if TYPE_CHECKING:
    from rich.table import Table

_BAR = 30


def stats_tables(result: StatsResult) -> "list[Table]":
    """The whole, its pass rates, its lengths, what the rankings say, and the parts."""
    whole = result.whole
    tables = [
        key_value_table("Dump", _overview(whole)),
        rows_table(
            "Groups by the share that passed",
            ("passed", "groups", ""),
            ((name, f"{count:,}", _bar(count, whole.pass_rates)) for name, count in whole.pass_rates.items()),
            numeric=(1,),
        ),
        rows_table("Lengths by outcome", _LENGTHS, _lengths(whole), numeric=range(1, len(_LENGTHS))),
    ]
    if result.grading is not None:
        tables += _grading(whole, result.grading)
    if result.by is not None:
        is_ranked = result.grading is not None
        columns = (*_PART, *(TIERS if is_ranked else ()))
        rows = ((name, *_part(part, is_ranked=is_ranked)) for name, part in result.parts.items())
        tables.append(
            rows_table(f"By {result.by}", (result.by, *columns), rows, numeric=range(1, len(columns) + 1))
        )
    return tables


def _overview(whole: DumpStatistics) -> Iterator[tuple[str, str]]:
    outcomes = ", ".join(f"{count:,} {name}" for name, count in whole.n_by_outcome.items())
    yield "trajectories", f"{whole.n_trajectories:,} ({outcomes})"
    yield "pass rate", _percent(whole.pass_rate)
    names = {"eligible": "can be ranked", "lone_pass": "mixed with one pass", "all_pass": "all pass"}
    names |= {"all_fail": "all fail", "singleton": "one valid attempt", "no_valid": "none valid"}
    shares = ", ".join(
        f"{names[name]} {count:,} ({count / max(whole.n_groups, 1):.0%})"
        for name, count in whole.n_groups_by_kind.items()
    )
    yield "groups", f"{whole.n_groups:,}: {shares}"
    candidates = ", ".join(f"{count:,} with {n}" for n, count in whole.passes_of_mixed.items())
    yield "passes in mixed groups", candidates or "no group is mixed"
    if whole.cost_usd is not None:
        yield "cost of the attempts", f"${whole.cost_usd:,.2f}, told of {whole.n_with_cost:,}"


_LENGTHS = (
    "outcome", "mean turns", "median", "90%", "largest", "mean tokens", "median", "90%", "largest", "truncated",
)  # fmt: skip


def _lengths(whole: DumpStatistics) -> Iterator[tuple[str, ...]]:
    for name, count in whole.n_by_outcome.items():
        yield (
            f"{name} ({count:,})",
            *_spread(whole.turns[name], count),
            *_spread(whole.tokens[name], count),
            _of(_percent(whole.truncated[name]), whole.n_with_truncated[name], count),
        )


def _spread(spread: Spread, n_all: int) -> tuple[str, ...]:
    values = (spread.mean, spread.median, spread.p90, spread.largest)
    mean, *others = ("-" if value is None else f"{value:,.1f}" for value in values)
    return (_of(mean, spread.n, n_all), *others)


def _of(text: str, n_known: int, n_all: int) -> str:
    """A figure with the number of attempts that tell it, where that is some only: 2 of 120 say little of the 120."""
    return f"{text} of {n_known:,}" if 0 < n_known < n_all else text


def _grading(whole: DumpStatistics, grading: GradingFigures) -> "Iterator[Table]":
    spent = grading.spending
    tokens = f"{spent.n_input_tokens:,} in ({spent.n_cached_tokens:,} cached), {spent.n_output_tokens:,} out"
    rows = [
        ("groups", ", ".join(f"{count:,} {name}" for name, count in grading.n_groups.items())),
        *((f"why {name}", _listed(counts)) for name, counts in grading.n_by_reason.items() if counts),
        ("integrity violations", f"{grading.n_integrity_violations:,}"),
        ("findings", _listed(whole.findings)),
        ("claims unproven", f"{whole.n_unproven:,}"),
        ("flags", _listed(grading.flags)),
        ("models", _listed(grading.models) or "not told"),
        ("calls", f"{spent.n_calls:,} to the model, {counted(spent.n_checks, 'command')} in sandboxes"),
        ("tokens", f"{tokens} in {counted(grading.n_lines, 'line')}, {spent.seconds:,.0f} s"),
    ]
    yield key_value_table("Rankings", rows)
    tiers = (
        (name, f"{count:,}", _bar(count, whole.tiers), *_spread(whole.scores[name], count))
        for name, count in whole.tiers.items()
    )
    columns = ("tier", "passes", "", "mean score", "median", "90%", "largest")
    yield rows_table("Tiers and weighted scores", columns, tiers, numeric=(1, 3, 4, 5, 6))
    if grading.scores:
        scores = (
            (name, *(f"{count:,}" for count in counts.values())) for name, counts in grading.scores.items()
        )
        yield rows_table("Scores", ("dimension", *"12345"), scores, numeric=range(1, 6))


_PART = (
    "trajectories",
    "passed",
    "groups",
    "rankable",
    "truncated",
    "turns",
    "tokens",
)


_VALID = ("passed", "failed")


def _part(part: DumpStatistics, *, is_ranked: bool) -> tuple[str, ...]:
    n_valid = sum(part.n_by_outcome[name] for name in _VALID)

    def mean(spreads: Mapping[str, Spread]) -> str:
        value, n_known = _joined([(spreads[name].n, spreads[name].mean) for name in _VALID])
        return _of("-" if value is None else f"{value:,.1f}", n_known, n_valid)

    truncated, n_told = _joined([(part.n_with_truncated[name], part.truncated[name]) for name in _VALID])
    return (
        f"{part.n_trajectories:,}",
        _percent(part.pass_rate),
        f"{part.n_groups:,}",
        _percent(part.n_groups_by_kind["eligible"] / part.n_groups if part.n_groups else None),
        _of(_percent(truncated), n_told, n_valid),
        mean(part.turns),
        mean(part.tokens),
        *(f"{count:,}" for count in part.tiers.values() if is_ranked),
    )


def _joined(means: Sequence[tuple[int, float | None]]) -> tuple[float | None, int]:
    """The mean over all values from (number of values, mean) of each set, and their number."""
    known = [(n, value) for n, value in means if value is not None]
    n_known = sum(n for n, _ in known)
    return (sum(n * value for n, value in known) / n_known if n_known else None), n_known


def _bar(count: int, counts: Mapping[str, int]) -> str:
    return "█" * round(_BAR * count / max(1, *counts.values()))


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
