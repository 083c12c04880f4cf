"""The result of an audit as rich tables: the sentence that answers, then the figures with their intervals."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gagar_cli.core.comparison import ATTEMPT_FIGURES, Comparison, Difference
from gagar_cli.core.figure_ranges import SHARES
from gagar_cli.core.intervals import LEVEL
from gagar_cli.core.ranking_agreement import Agreement
from gagar_cli.core.statistics import Estimate, holm_p_values
from gagar_cli.core.text import counted
from gagar_cli.tables import key_value_table, rows_table

if TYPE_CHECKING:
    from rich.table import Table

    from gagar_cli.audit_summary import AuditResult

FIGURE_NAMES = {
    "weighted_score": "weighted score",
    "side_effects": "side effects",
    "tier_1_share": "tier 1",
    "tier_2_share": "tier 2",
    "tier_3_share": "tier 3",
    "patch_lines": "patch lines",
    "pass_rate": "pass rate",
    "n_turns": "turns",
    "n_output_tokens": "output tokens",
}


def audit_tables(result: "AuditResult") -> Iterator["Table"]:
    """What there is to say, for a terminal."""
    answers = [("answer", answer(comparison)) for comparison in result.comparisons]
    yield key_value_table("audit", [*answers, *audit_facts(result)])
    for comparison in result.comparisons:
        yield comparison_table(comparison)
    if result.gates:
        rows = [("met" if gate.is_met else "not met", gate.describe()) for gate in result.gates]
        yield key_value_table("gates", rows)


def answer(comparison: Comparison) -> str:
    """One sentence: which policy writes the better solutions, and whether the sample shows it."""
    rate = comparison.win_rate
    if rate is None or rate.estimate.interval is None:
        tasks = counted(comparison.n_tasks, "common task")
        says = "says" if comparison.n_tasks == 1 else "say"
        return f"{tasks} {says} nothing about {comparison.second} against {comparison.first}"
    low, high = rate.estimate.interval
    share = rate.estimate.value
    ends = f"[{low:.1%}, {high:.1%}]"
    sides = f"{comparison.second} wins {share:.1%} {ends} of pairs against {comparison.first}"
    if low > 0.5:
        return f"{sides}: better (the interval excludes 50%)"
    if high < 0.5:
        return f"{sides}: worse (the interval excludes 50%)"
    more = (
        f"; about {counted(rate.tasks_needed, 'task')} would settle a difference of this size"
        if rate.tasks_needed
        else ""
    )
    return f"{sides}: undecided (the interval holds 50%){more}"


def comparison_table(comparison: Comparison) -> "Table":
    """Every figure of two policies on their common tasks, with the difference and its interval."""
    columns = ("", comparison.first, comparison.second, "difference, 95% interval", "p")
    title = f"{comparison.second} against {comparison.first}"
    return rows_table(
        f"{title}, {basis_of(comparison)}", columns, comparison_rows(comparison), numeric=(1, 2, 4)
    )


def basis_of(comparison: Comparison) -> str:
    """How many tasks and pairs a comparison rests on."""
    return f"{counted(comparison.n_tasks, 'task')}, {counted(comparison.n_pairs, 'judged pair')}"


def comparison_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Name, both values, difference with its interval, p-value; a rate has its interval beside its own value."""
    rows: list[tuple[str, ...]] = []
    for name, rate in (("win rate", comparison.win_rate), ("top-1 share", comparison.top1_share)):
        if rate is None:
            rows.append((name, "", "not measured", "", ""))
        else:
            other = show_value(1 - rate.estimate.value, is_share=True)
            rows.append((name, other, show_estimate(rate.estimate, is_share=True), "", show_p_value(rate)))
    if comparison.tie_rate is not None:
        rows.insert(1, ("ties", "", "", f"{show_ties(comparison)}, each half a win", ""))
    for name, (first, second) in comparison.values.items():
        is_share = name in SHARES
        difference = comparison.differences[name]
        rows.append(
            (
                figure_label(comparison, name),
                show_value(first.value, is_share=is_share),
                show_value(second.value, is_share=is_share),
                show_estimate(difference.estimate, is_share=is_share, signed=True),
                show_p_value(difference),
            )
        )
    return rows


def figure_label(comparison: Comparison, name: str) -> str:
    """What a figure is called, with the tasks that it is of where they are not those that were judged."""
    label = FIGURE_NAMES.get(name, name)
    n_tasks = comparison.differences[name].estimate.n_tasks
    is_of_all = name in ATTEMPT_FIGURES
    return f"{label}, {counted(n_tasks, 'task')}" if is_of_all or n_tasks != comparison.n_tasks else label


def show_ties(comparison: Comparison) -> str:
    """The share of tied pairs as text."""
    return f"{show_value(comparison.tie_rate or 0.0, is_share=True)} of pairs"


def show_estimate(estimate: Estimate, *, is_share: bool, signed: bool = False, unit: str = "task") -> str:
    """A value with its interval; `unit` is what it is a mean over."""
    value = show_value(estimate.value, is_share=is_share, signed=signed)
    if estimate.interval is None:
        return f"{value} (one {unit})"
    if estimate.interval_kind == "constant":
        return f"{value} (in every {unit})"
    low, high = (show_value(end, is_share=is_share, signed=signed) for end in estimate.interval)
    return f"{value} [{low}, {high}]"


def show_value(value: float, *, is_share: bool, signed: bool = False) -> str:
    """A figure at the places that mean something."""
    sign = "+z" if signed else "z"  # what rounds to zero is neither above nor below it
    if is_share:
        return f"{100 * value:{sign}.1f}%"
    return f"{value:{sign},.2f}" if abs(value) < 1000 else f"{value:{sign},.0f}"


def audit_facts(result: "AuditResult") -> list[tuple[str, str]]:
    """How the answer was come by, as names and values."""
    tasks = result.n_tasks
    form = "pairs in both orders" if result.is_pairwise else "all attempts of a task side by side"
    rows = []
    names = ("shared", "sampled", "judged", "ungraded")
    told = [f"{tasks[name]:,} {name}" for name in names]
    who = "both" if len(result.policies) == 2 else f"all {len(result.policies)}"
    told.insert(1, f"{tasks['solved_by_all']:,} solved by {who}")
    rows.append(("tasks", ", ".join(told)))
    if result.ungraded_reasons:
        rows.append(("why ungraded", ", ".join(result.ungraded_reasons)))
    rows.append(("judge", f"{', '.join(result.judges)}; {form}; shown: {result.shows}"))
    first = result.comparisons[0].win_rate
    if first is not None and first.detectable is not None:
        finds = f"a win rate {first.detectable:.1%} away from 50%, with a power of 80%"
        if first.detectable > 0.5:
            finds = "no win rate with a power of 80%, not even 0% or 100%: the tasks are too few"
        rows.append(("this sample finds", finds))
    if result.position is not None:
        shown = show_estimate(result.position, is_share=True)
        rows.append(("shown earlier wins", f"{shown} (50% is unbiased)"))
    if result.flips is not None:
        shown = show_estimate(result.flips, is_share=True)
        rows.append(("verdict changes with order", f"{shown} of pairs"))
    if result.agreement is not None:
        rows.append(("judges agree", _agreement_text(result.agreement)))
    if result.guessed is not None:
        shown = show_estimate(result.guessed, is_share=True)
        rows.append(("policy guessed", f"{shown} ({1 / len(result.policies):.0%} is chance: a blind judge)"))
    if result.strengths:
        strengths = sorted(result.strengths.items(), key=lambda one: -one[1])
        rows.append(("strength", ", ".join(f"{name} {value:+.2f}" for name, value in strengths)))
    if len(result.comparisons) > 1:
        rows.append(("comparisons", _holm_text(result.comparisons)))
    spent = result.spending
    made = (
        counted(spent.n_calls, "call"),
        counted(spent.n_input_tokens, "token"),
        counted(spent.n_output_tokens, "token"),
    )
    rows.append(("cost", "{}, {} in, {} out".format(*made)))
    return rows


def _holm_text(comparisons: Sequence[Comparison]) -> str:
    rates = [comparison.win_rate for comparison in comparisons]
    corrected = holm_p_values([rate.p_value if rate else None for rate in rates])
    clear = [
        f"{one.second} against {one.first}"
        for one, p_value in zip(comparisons, corrected, strict=True)
        if p_value is not None and p_value < 1 - LEVEL
    ]
    told = ", ".join(clear) or "none"
    return f"{len(comparisons)}, each at its own 95%; together (Holm) these win rates differ from 50%: {told}"


def _agreement_text(agreement: Agreement) -> str:
    taus = [pair.tau_b.value for pair in agreement.pairs if pair.tau_b is not None]
    parts = [f"order τ-b {sum(taus) / len(taus):+.2f}"] if taus else []
    for name, found in (("tiers", agreement.tiers), ("scores", agreement.scores)):
        if found.alpha is not None:
            ends = f" [{found.interval.low:.2f}, {found.interval.high:.2f}]" if found.interval else ""
            parts.append(f"{name} α {found.alpha:.2f}{ends}")
    return ", ".join(parts) or "nothing on which they could differ"


def show_p_value(difference: Difference) -> str:
    """The p-value as text; empty where there is none."""
    p_value = difference.p_value
    if p_value is None:
        return ""
    return "<0.0001" if p_value < 0.0001 else f"{p_value:.4f}"
