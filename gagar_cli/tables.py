"""Results as rich tables. Values come from results, never computed here; names pass the sanitizer."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from gagar_cli.core.text import escape_untrusted

if TYPE_CHECKING:
    from rich.table import Table

    from gagar_cli.core.invariants import Effects
    from gagar_cli.demo import DemoResult
    from gagar_cli.doctor import Examination
    from gagar_cli.grading_summary import GradeResult
    from gagar_cli.redistribution_summary import Losses, RedistributeResult
    from gagar_cli.tier_examples import TierExample


def key_value_table(title: str, rows: Iterable[tuple[str, str]]) -> "Table":
    """A two-column table of names and values."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(escape_untrusted(value)))
    return table


def rows_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Iterable[int] = ()
) -> "Table":
    """A table with a header; the columns numbered in `numeric` are aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    right = set(numeric)
    for number, name in enumerate(columns):
        is_last = number == len(columns) - 1
        table.add_column(
            name, justify="right" if number in right else "left", overflow="fold", no_wrap=not is_last
        )
    for row in rows:
        table.add_row(*(Text(escape_untrusted(cell, keep_newlines=False)) for cell in row))
    return table


def grade_table(result: "GradeResult") -> "Table":
    """The summary of a grading run."""
    eligible = f"{result.n_eligible:,} of {result.n_groups:,} groups"
    if result.n_groups:
        eligible += f" ({result.n_eligible / result.n_groups:.0%})"
    graded = f"{result.n_graded:,}"
    if result.n_resumed:
        graded += f" ({result.n_resumed:,} settled by an earlier run)"
    rows = [
        ("grader", f"{result.model}, sandbox {result.sandbox}"),
        ("trajectories", f"{result.n_trajectories:,}"),
        ("eligible", eligible),
        ("graded", graded),
        ("ungraded", f"{result.n_ungraded:,}{_reasons(result.ungraded)}"),
        ("skipped", f"{sum(result.skipped.values()):,}{_reasons(result.skipped)}"),
        ("tiers", "  ".join(f"{tier} {count:,}" for tier, count in result.tiers.items())),
        ("integrity violations", f"{result.n_integrity_violations:,}"),
        ("findings", f"{result.n_findings:,} proven, {result.n_unproven:,} claims unproven"),
        ("calls", f"{result.n_calls:,} to the model, {result.n_checks:,} commands in sandboxes"),
        (
            "tokens",
            f"{result.n_input_tokens:,} in ({result.n_cached_tokens:,} cached), {result.n_output_tokens:,} out",
        ),
    ]
    if result.n_not_reached:
        rows.insert(4, ("left out by --limit", f"{result.n_not_reached:,}"))
    rows += [("why ungraded", reason) for reason in result.ungraded_reasons]
    return key_value_table("Grading", rows)


def _reasons(counts: dict[str, int]) -> str:
    return f" ({', '.join(f'{name} {count:,}' for name, count in counts.items())})" if counts else ""


def redistribute_table(result: "RedistributeResult") -> "Table":
    """The invariants of a redistribution: what was kept, what was moved, what the paper's cap would have done."""
    effects, paper = result.effects, result.paper_effects
    groups = ", ".join(f"{count:,} {name}" for name, count in result.n_groups.items())
    rows = [
        ("method", _describe_method(result)),
        *_describe_inputs(result),
        ("trajectories", f"{result.n_trajectories:,} ({result.n_invalid:,} invalid)"),
        ("groups", groups),
        *(
            (f"why {name}", _reasons(counts).strip(" ()"))
            for name, counts in result.n_by_reason.items()
            if counts
        ),
        ("integrity violations", f"{result.n_integrity_violations:,} (reward 0)"),
        ("pass sums kept", f"to {effects.pass_sum_error:.1e}"),
        ("failures unchanged", _unchanged(effects.n_changed_failures)),
        (
            "groups moved",
            f"{effects.n_changed_groups:,}, largest amplification {effects.max_amplification:.3f}",
        ),
        *([("capped", f"{effects.n_capped:,} groups{_share(result.cap_rate)}")] if paper else []),
        *(
            [("ungraded", _share(result.ungraded_rate).strip(" ()") or "no group was owed")]
            if result.basis == "rankings"
            else []
        ),
        ("loss at ratio 1, sequence mean", _loss(result.sequence_mean)),
        ("loss at ratio 1, token mean", _loss(result.token_mean)),
        *([("the paper's cap instead", _effects(paper))] if paper else []),
    ]
    if result.n_broken_groups is not None:
        rows.append(("invariants broken", f"in {result.n_broken_groups:,} groups"))
    if result.n_unknown_groups:
        rows.append(("rankings of unknown groups", f"{result.n_unknown_groups:,} lines"))
    if result.replaced_columns:
        rows.append(("columns replaced", ", ".join(result.replaced_columns)))
    return key_value_table("Redistribution", rows)


def _effects(effects: "Effects") -> str:
    kept = f"pass sums to {effects.pass_sum_error:.1e}, failures unchanged: {_unchanged(effects.n_changed_failures)}"
    return (
        f"{kept}, {effects.n_capped:,} groups capped, largest amplification {effects.max_amplification:.3f}"
    )


def _describe_method(result: "RedistributeResult") -> str:
    options = dict(result.options)
    words = [result.method]
    if result.basis == "rankings" and result.paper_effects is not None:
        words.append(f"tiers {result.tiers}")
    if "cap" in options:
        limit = f"{options.pop('limit'):g}"
        words.append(f"cap {_CAPS[str(options.pop('cap'))].format(limit)}")
    words += [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in options.items()
    ]
    return ", ".join(words)


_CAPS = {
    "bounded": "bounded (amplification at most {}; not the paper's cap)",
    "none": "none (the paper's equation 2)",
    "paper": "the paper's (λ at most {}, then recentred)",
    "waterfill": "waterfill (amplification at most {}; not the paper's cap)",
    "temper": "temper (factors to a power, amplification at most {}; not the paper's cap)",
    "pass-recentre": "pass-recentre (λ at most {}, the rest to the passes; not the paper's cap)",
}


def _describe_inputs(result: "RedistributeResult") -> Iterator[tuple[str, str]]:
    """What was read beside rewards and ranks, where anything was, and what was left out."""
    if result.factor_column is not None:
        combined = " times the tier factors" if result.basis == "rankings" else ", alone"
        yield "penalties", f"{result.factor_column}{combined}"
    if result.process_from is not None:
        sources = {
            "column": "process_score of the dump",
            "rankings": "the rankings, (weighted_score - 1) / 4",
        }
        yield "process scores", f"from {sources[result.process_from]}"
    if result.eligible is not None:
        yield "eligible", f"{result.eligible} ({result.n_outside:,} trajectories outside get the base)"
    if result.sampling is not None:
        sampling = result.sampling
        dropped = (
            f"{sampling.n_all_pass:,} all pass, {sampling.n_all_fail:,} all fail, "
            f"{sampling.n_too_small:,} too small, {sampling.n_invalid:,} invalid"
        )
        yield "dynamic sampling", f"{sampling.n_kept:,} groups kept; without an advantage: {dropped}"


def _unchanged(n_changed: int) -> str:
    return "all, bit for bit" if not n_changed else f"{n_changed:,} changed"


def _share(value: float | None) -> str:
    return "" if value is None else f" ({value:.1%})"


def _loss(losses: "Losses | None") -> str:
    if losses is None:
        return "unknown: a valid trajectory has no n_output_tokens"
    # Adding zero turns the negative zero of a rounded −1e-17 into zero.
    before, after = round(losses.base, 6) + 0.0, round(losses.redistributed, 6) + 0.0
    return f"{before:+.6f} before, {after:+.6f} after"


def tier_tables_table(records: "Mapping[str, Mapping[str, object]]") -> "Table":
    """Tier tables beside each other, one column a table."""
    keys = list(next(iter(records.values())))
    rows = [(key, *(_short(record[key]) for record in records.values())) for key in keys]
    return rows_table(
        "Built-in tier tables (flash is the paper's)",
        ("", *records),
        rows,
        numeric=range(1, len(records) + 1),
    )


def tier_examples_table(
    name: str, record: "Mapping[str, object]", examples: "Sequence[TierExample]"
) -> "Table":
    """One table's factors and amplification in example groups, one row an example."""
    values = ", ".join(f"{key} {_short(value)}" for key, value in record.items())
    rows = [
        (
            _runs(example.places),
            str(example.n_failed),
            _runs(_short(factor) for factor in example.factors),
            _runs(f"{gain:.3f}" for gain in example.amplification),
            "yes" if example.is_capped else "no",
        )
        for example in examples
    ]
    columns = ("passes (tier.rank)", "failed", "factors", "advantage times", "capped")
    return rows_table(f"Tier table {name}: {values}", columns, rows, numeric=(1,))


def _runs(words: Iterable[str]) -> str:
    """Words with neighbours that are equal told once, with their number."""
    counted = [(word, len(list(run))) for word, run in groupby(words)]
    return " ".join(word if n == 1 else f"{word}×{n}" for word, n in counted)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def demo_tables(result: "DemoResult") -> "list[Table]":
    """One table a task, one row an attempt: the tests, its place, what its advantage became, and why."""
    columns = ("attempt", "tests", "place", "advantage", "becomes", "why")
    groups: dict[str, list[tuple[str, ...]]] = {}
    for row in result.attempts:
        numbers = (_signed(row.advantage_base), _signed(row.advantage))
        groups.setdefault(row.group_id, []).append((row.attempt, row.outcome, row.place, *numbers, row.why))
    recomputed = {row.group_id for row in result.attempts if row.is_violation}
    return [
        rows_table(
            f"Task {name}" + (" (its mean is recomputed after the violation)" if name in recomputed else ""),
            columns,
            rows,
            numeric=(3, 4),
        )
        for name, rows in groups.items()
    ]


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


def doctor_tables(found: "Examination") -> "list[Table]":
    """The machine, its sandboxes, what they leave open, what would be taken."""
    backends = [
        (
            report.name,
            report.state,
            "-" if report.latency_ms is None else f"{report.latency_ms:,.0f} ms",
            f"{report.n_held} of {found.n_attacks}" if report.n_held else "-",
            report.detail,
        )
        for report in found.backends
    ]
    opens = [(report.name, what, truth) for report in found.backends for what, truth in report.opens]
    tables = [
        key_value_table("Versions", found.versions.items()),
        rows_table(
            "Sandboxes", ("backend", "state", "a command", "attacks held", "what"), backends, numeric=(2,)
        ),
        rows_table("Not held in full", ("backend", "attack", "instead"), opens or [("-", "nothing", "")]),
        rows_table("--sandbox auto takes", ("for", "backend", "because"), found.choices),
    ]
    if found.warnings:
        tables.insert(1, rows_table("Warnings", ("known to be bad",), [(one,) for one in found.warnings]))
    return tables
