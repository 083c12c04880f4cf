"""Redistributions and tier tables as rich tables. Values come from results, never computed here."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from gagar_cli.core.text import counted, told_counts
from gagar_cli.tables import key_value_table, rows_table

if TYPE_CHECKING:
    from rich.table import Table

    from gagar_cli.core.invariants import Effects
    from gagar_cli.core.method_options import SettledCap
    from gagar_cli.redistribution_summary import Losses, RedistributeResult
    from gagar_cli.tier_examples import ShownTable

_CONSEQUENCES = {"zero": "reward of a failure", "t3": "T3, reward kept", "report": "reported only"}


def redistribute_table(result: "RedistributeResult") -> "Table":
    """The invariants of a redistribution: what was kept, what was moved, what the paper's cap would have done."""
    effects, paper = result.effects, result.paper_effects
    rows = [
        ("method", _describe_method(result)),
        *_describe_inputs(result),
        ("trajectories", f"{result.n_trajectories:,} ({result.n_invalid:,} invalid)"),
        *_describe_groups(result),
        (
            "integrity violations",
            f"{result.n_integrity_violations:,} ({_CONSEQUENCES[result.integrity_action]})",
        ),
        ("pass sums kept", f"to {effects.pass_sum_error:.1e}"),
        ("failures unchanged", _unchanged(effects.n_changed_failures)),
        (
            "groups moved",
            f"{effects.n_changed_groups:,}, largest amplification {effects.max_amplification:.3f}",
        ),
        *_describe_low_passes(result),
        *([("capped", f"{counted(effects.n_capped, 'group')}{_share(result.cap_rate)}")] if paper else []),
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
        n_groups = sum(result.n_groups.values())
        rows.append(("invariants broken", f"in {result.n_broken_groups:,} of {counted(n_groups, 'group')}"))
    if result.n_overridden:
        rows.append(("overridden by people", counted(result.n_overridden, "group")))
    if result.n_unknown_groups:
        rows.append(("rankings of unknown groups", counted(result.n_unknown_groups, "line")))
    if result.replaced_columns:
        rows.append(("columns replaced", ", ".join(result.replaced_columns)))
    return key_value_table("Redistribution", rows)


def _describe_groups(result: "RedistributeResult") -> Iterator[tuple[str, str]]:
    """How many groups there are, and what became of them where anything was to be graded."""
    if result.basis == "nothing":
        yield "groups", f"{sum(result.n_groups.values()):,} (this method grades none)"
        return
    yield "groups", ", ".join(f"{count:,} {name}" for name, count in result.n_groups.items())
    for name, counts in result.n_by_reason.items():
        if counts:
            yield f"why {name}", told_counts(counts)


def _describe_low_passes(result: "RedistributeResult") -> Iterator[tuple[str, str]]:
    """Passes that a factor has nothing to move of; rewards of 0 and 1 have none."""
    if result.effects.n_low_passes and "cap" in result.options:
        fate = "set to the mean" if result.options["cap"] == "paper" else "left as they were"
        yield "passes not above the mean", f"{result.effects.n_low_passes:,}, {fate}"


def _effects(effects: "Effects") -> str:
    kept = f"pass sums to {effects.pass_sum_error:.1e}, failures unchanged: {_unchanged(effects.n_changed_failures)}"
    capped = f"{counted(effects.n_capped, 'group')} capped"
    return f"{kept}, {capped}, largest amplification {effects.max_amplification:.3f}"


def _describe_method(result: "RedistributeResult") -> str:
    options = dict(result.options)
    words = [result.method]
    if result.basis == "rankings" and result.paper_effects is not None:
        words.append(f"tiers {result.tiers}")
    if "cap" in options:
        del options["cap"], options["limit"]
        words.append(_describe_cap(result.cap))
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
    if result.factor is not None:
        combined = " times the tier factors" if result.basis == "rankings" else ", alone"
        yield "penalties", f"{result.factor}{combined}"
    if result.process_from is not None:
        sources = {
            "column": "process_score of the dump",
            "rankings": "the rankings, (weighted_score - 1) / 4",
        }
        yield "process scores", f"from {sources[result.process_from]}"
    if result.eligible is not None:
        outside = counted(result.n_outside, "trajectory outside gets", "trajectories outside get")
        yield "eligible", f"{result.eligible} ({outside} the base)"
    if result.sampling is not None:
        sampling = result.sampling
        dropped = (
            f"{sampling.n_all_pass:,} all pass, {sampling.n_all_fail:,} all fail, "
            f"{sampling.n_too_small:,} too small, {sampling.n_invalid:,} invalid"
        )
        yield "dynamic sampling", f"{counted(sampling.n_kept, 'group')} kept; without an advantage: {dropped}"


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


def tier_tables_table(records: Mapping[str, Mapping[str, object]]) -> "Table":
    """Tier tables beside each other, one row a table."""
    keys = list(next(iter(records.values())))
    rows = [(name, *(_told(record[key]) for key in keys)) for name, record in records.items()]
    return rows_table("Built-in tier tables (flash is the paper's)", ("", *keys), rows)


def tier_examples_table(shown: "ShownTable") -> "Table":
    """One table's factors and amplification in example groups, one row an example."""
    record = shown.table.to_record()
    values = "; ".join(f"{key}: {_told(value)}" for key, value in record.items() if key != "cap")
    rows = [
        (
            _runs(example.places),
            str(example.n_failed),
            _runs(_short(factor) for factor in example.factors),
            _runs(f"{gain:.3f}" for gain in example.amplification),
            "yes" if example.is_capped else "no",
        )
        for example in shown.examples
    ]
    columns = ("passes (tier.rank)", "failed", "factors", "advantage times", "capped")
    title = f"Tier table {shown.name}: {values}\n{_describe_cap(shown.settled)}"
    return rows_table(title, columns, rows, numeric=(1,))


def _told(value: object) -> str:
    """A rule, a cap or a word of a tier table."""
    if not isinstance(value, Mapping):
        return str(value)
    if "kind" in value:
        parts = (value["kind"], value["limit"])
        return " ".join(_short(part) for part in parts if part is not None) or "default"
    return f"{value['rule']} " + ", ".join(
        f"{key} {_short(factor)}" for key, factor in value.items() if key != "rule"
    )


def _describe_cap(settled: "SettledCap") -> str:
    words = f"cap {_CAPS[settled.cap].format(f'{settled.limit:g}')}"
    if settled.overruled:
        return f"{words}; the flag wins over the table's {settled.overruled}"
    return f"{words}, {_CAP_SOURCES[settled.source]}"


_CAP_SOURCES = {"default": "the default", "table": "from the table", "flag": "as asked for"}


def _runs(words: Iterable[str]) -> str:
    """Words with neighbours that are equal told once, with their number."""
    runs = [(word, len(list(run))) for word, run in groupby(words)]
    return " ".join(word if n == 1 else f"{word}×{n}" for word, n in runs)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
