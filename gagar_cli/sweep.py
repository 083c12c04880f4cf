"""The sweep: existing rankings under other caps, tier tables, tie policies and rubric weights, with no endpoint.

It tells how much of a result hangs on choices that no source settles: the λ of the cap, the factors, the weights. Every
variant changes one thing of the default (`flash`, `bounded` at 1.5, ties as the table says, ranks as in the rankings).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from statistics import fmean
from typing import NamedTuple

import numpy as np

from gagar_cli.core.double_double import FloatArray
from gagar_cli.core.estimators import Options
from gagar_cli.core.integrity_action import IntegrityAction, ViolationActs
from gagar_cli.core.invariants import Effects
from gagar_cli.core.judging import GRADINGS, Judged, Trajectories, judge_groups
from gagar_cli.core.method_options import check_limit
from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.redistribution import redistribute
from gagar_cli.core.rubric import PAPER, Rubric
from gagar_cli.core.schema import GroupKey
from gagar_cli.core.svg import DotPanel, LinePanel, Series, draw_svg
from gagar_cli.core.sweeps import (
    Comparison,
    Variant,
    compare,
    draw_weights,
    one_at_a_time,
    order_by_scores,
)
from gagar_cli.core.tier_tables import BUILT_IN
from gagar_cli.errors import InputError, UsageError
from gagar_cli.grading_reading import compared_reading
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from gagar_cli.io.ranked_index import RankedIndex, lay_rankings
from gagar_cli.io.rankings import read_rankings
from gagar_cli.io.rubrics import read_rubric
from gagar_cli.io.streams import show_path
from gagar_cli.io.tier_tables import read_tier_table
from gagar_cli.io.writers import refuse_existing, write_atomically
from gagar_cli.own_inputs import refuse_own_inputs
from gagar_cli.progress import ProgressCallback, heard, no_progress
from gagar_cli.redistribution_summary import effects_record

LIMITS = (1.1, 1.25, 1.5, 2.0, 3.0)
_CONCENTRATIONS = (0.1, 1e6)
"""Below, all parts of a draw may be too small for a double; above, a draw is the rubric's own weights."""
_SCORES_ALONE = "the rubric's"
"""The draw that is none: the rubric's own weights, without the order that the grader gave inside a tier."""


@dataclass(frozen=True, slots=True)
class SweepSettings:
    """One run, as the command line gives it."""

    dumps: tuple[str, ...]
    rankings: str
    read: ReadOptions = field(default_factory=ReadOptions)
    tiers: tuple[str, ...] = ()
    """Tier tables in TOML, beside the built-in ones."""
    limits: tuple[float, ...] = LIMITS
    rubric: str | None = None
    """A rubric file, where the rankings were made with one; None: the paper's."""
    integrity_action: IntegrityAction = "zero"
    """What a confirmed integrity violation costs, in every variant."""
    n_weights: int = 20
    concentration: float = 30.0
    """Of the weights drawn around the rubric's: 30 moves a weight of 0.30 by about 0.08."""
    seed: int = 0
    plot: str | None = None
    """An SVG file to write."""
    overwrite: bool = False


class SweptVariant(NamedTuple):
    """A variant and what came out."""

    variant: Variant
    effects: Effects
    comparison: Comparison

    @property
    def cap_rate(self) -> float | None:
        """Capped groups as a share of the graded ones."""
        n_groups = self.comparison.n_groups
        return self.effects.n_capped / n_groups if n_groups else None

    def to_record(self) -> dict[str, object]:
        """The variant as a JSON object."""
        weights = self.variant.weights
        return {
            "axis": self.variant.axis,
            "name": self.variant.name,
            "cap": self.variant.cap,
            "limit": None if self.variant.cap == "none" else self.variant.limit,
            "ties": self.variant.table.ties,
            "weights": None if weights is None else list(weights),
            "capped_share": self.cap_rate,
            "n_groups": self.comparison.n_groups,
            "moved_share": self.comparison.moved,
            "n_groups_with_other_best": self.comparison.n_top_changed,
            "tau_b": self.comparison.tau_b,
            "n_groups_with_tau_b": self.comparison.n_with_tau,
            "effects": effects_record(self.effects),
        }


@dataclass(frozen=True, slots=True)
class SweepResult:
    """All variants, the default first."""

    variants: tuple[SweptVariant, ...]
    n_groups: int
    n_graded: int
    n_without_scores: int
    """Graded groups that lack a score and so keep their order under other weights."""
    dimensions: tuple[str, ...]
    plot: str | None
    notes: tuple[str, ...]

    def to_record(self) -> dict[str, object]:
        """The result as one JSON object."""
        return {
            "n_groups": self.n_groups,
            "n_graded": self.n_graded,
            "n_without_scores": self.n_without_scores,
            "dimensions": list(self.dimensions),
            "plot": self.plot,
            "variants": [each.to_record() for each in self.variants],
        }


def run(settings: SweepSettings, progress: ProgressCallback = no_progress) -> SweepResult:
    """Read once, redistribute once a variant, compare.

    Raises:
        UsageError: a limit or count out of range, no such tier table or rubric.
        InputError: bad data, or no group of the rankings is graded.
        OutputError: the plot exists or cannot be written.
    """
    _check(settings)
    rubric = PAPER if settings.rubric is None else read_rubric(settings.rubric)
    tables = {**BUILT_IN, **{show_path(name): read_tier_table(name) for name in settings.tiers}}
    shares = tuple(float(share) for share in rubric.shares)
    random = Random(settings.seed)  # noqa: S311 - a seeded sample, no secret
    drawn = draw_weights(shares, settings.n_weights, random, settings.concentration)
    weights = [(f"draw {number}", each) for number, each in enumerate(drawn, 1)]
    planned = list(
        one_at_a_time(
            tables,
            default="flash",
            limits=settings.limits,
            weights=[(_SCORES_ALONE, shares), *weights] if drawn else [],
        )
    )
    with open_dump(settings.dumps, settings.read, progress=heard(progress)) as dump:
        scores = _Scores(rubric)
        lines = scores.watch(read_rankings(settings.rankings, progress=heard(progress)))
        acts = ViolationActs(settings.integrity_action)
        with compared_reading(dump, settings.rankings, settings.read):
            ranked = lay_rankings(dump, acts.act(lines), show_path(settings.rankings))
        rows = ranked.trajectories
        judged = judge_groups(rows, ranked.verdicts)
        found = scores.lay(dump, ranked)
        notes = dump.report.notes
    is_graded = judged.status == GRADINGS.index("graded")
    if not is_graded.any():
        raise InputError(
            f"{show_path(settings.rankings)}: ranks no group with passes and failures",
            "`gagar redistribute` says of each group why",
        )
    swept = _sweep(planned, rows, judged, found, progress)
    if settings.plot is not None:
        with write_atomically(settings.plot) as stream:
            stream.write(_plot(swept).encode())
    is_candidate = (rows.tier >= 0) & is_graded[rows.group] & judged.is_passed
    lacking = np.unique(rows.group[is_candidate & np.isnan(found).any(axis=1)])
    return SweepResult(
        swept, len(is_graded), int(is_graded.sum()), len(lacking), rubric.dimensions, settings.plot, notes
    )


def _check(settings: SweepSettings) -> None:
    for limit in settings.limits:
        check_limit(limit)
    least, most = _CONCENTRATIONS
    if not least <= settings.concentration <= most:
        expected = f"expected a number from {least:g} to {most:g}"
        raise UsageError(f"--concentration is {settings.concentration:g}, {expected}")
    if settings.rankings == "-" and "-" in settings.dumps:
        raise UsageError("the dump and --rankings are both `-`", "only one of them can come from stdin")
    if settings.plot is not None:
        if not settings.plot.lower().endswith(".svg"):
            raise UsageError(f"--plot is {show_path(settings.plot)}, expected a name that ends in .svg")
        inputs = (*settings.dumps, settings.rankings, *settings.read.joins)
        refuse_own_inputs(settings.plot, inputs, flag="--plot")
        refuse_existing(settings.plot, overwrite=settings.overwrite)


def _sweep(
    planned: list[Variant],
    rows: Trajectories,
    judged: Judged,
    scores: FloatArray,
    progress: ProgressCallback,
) -> tuple[SweptVariant, ...]:
    is_pass = judged.is_passed & (judged.status == GRADINGS.index("graded"))[rows.group]
    default: FloatArray | None = None
    swept = []
    for number, variant in enumerate(planned):
        progress(number, len(planned), f"{variant.axis} {variant.name}")
        chosen = rows if variant.weights is None else order_by_scores(rows, scores, variant.weights)
        options = Options(cap=variant.cap, limit=variant.limit)
        made = redistribute(chosen, judged, variant.table, "gagar", options)
        advantage, base = made.columns.advantage, made.columns.base
        default = advantage if default is None else default
        swept.append(SweptVariant(variant, made.effects, compare(rows, is_pass, default, advantage, base)))
    progress(len(planned), len(planned), "done")
    return tuple(swept)


class _Scores:
    """Collects the scores of a rankings file as it goes by."""

    def __init__(self, rubric: Rubric) -> None:
        self._rubric = rubric
        self._found: dict[tuple[GroupKey, str], tuple[float, ...]] = {}

    def watch(self, rankings: Iterator[GroupRanking]) -> Iterator[GroupRanking]:
        """The same rankings; the last line of a group wins here as elsewhere."""
        for ranking in rankings:
            for candidate in ranking.candidates:
                scores = candidate.scores
                values = tuple(float(scores.get(name, np.nan)) for name in self._rubric.dimensions)
                self._found[ranking.key, candidate.trajectory_id] = values
            yield ranking

    def lay(self, dump: Dump, ranked: RankedIndex) -> FloatArray:
        """(n_trajectories, n_dimensions); NaN where a trajectory has none."""
        unknown = (float("nan"),) * len(self._rubric.dimensions)
        keys = dump.keys()[ranked.primary_rows]
        values = [
            self._found.get((GroupKey(step, group_id), trajectory_id))
            or self._found.get((GroupKey(None, group_id), trajectory_id), unknown)
            for step, group_id, trajectory_id in keys.iter_rows()
        ]
        return np.array(values, dtype=np.float64).reshape(len(values), len(unknown))


def weight_summary(swept: tuple[SweptVariant, ...]) -> dict[str, tuple[float, float, float]]:
    """Over the drawn weights: least, mean and largest share of groups with another best pass, and τ-b."""
    draws = [each for each in swept if each.variant.axis == "weights" and each.variant.name != _SCORES_ALONE]
    values = {
        "top_changed": [each.comparison.n_top_changed / each.comparison.n_groups for each in draws],
        "tau_b": [each.comparison.tau_b for each in draws if each.comparison.tau_b is not None],
    }
    return {name: (min(each), fmean(each), max(each)) for name, each in values.items() if each}


def _plot(swept: tuple[SweptVariant, ...]) -> str:
    """What caps do over their limit, and how far the order of the passes follows each choice."""
    by_cap: dict[str, list[SweptVariant]] = {}
    for each in swept:
        if each.variant.axis == "cap" and each.variant.cap != "none":
            by_cap.setdefault(each.variant.cap, []).append(each)
    names = {"tiers": "table {}", "ties": "ties {}"}
    rows = [
        (names[each.variant.axis].format(each.variant.name), [each.comparison.tau_b])
        for each in swept
        if each.variant.axis in names and each.comparison.tau_b is not None
    ]
    drawn = [each.comparison.tau_b for each in swept if each.variant.axis == "weights"]
    rows.append(("weights", [tau for tau in drawn if tau is not None]))

    def lines(values: dict[str, list[tuple[float, float]]]) -> list[Series]:
        return [Series(name, points) for name, points in values.items()]

    moved = {cap: [(each.variant.limit, each.comparison.moved) for each in of] for cap, of in by_cap.items()}
    rates = {cap: [(each.variant.limit, each.cap_rate or 0.0) for each in of] for cap, of in by_cap.items()}
    gains = {
        cap: [(each.variant.limit, each.effects.max_amplification) for each in of]
        for cap, of in by_cap.items()
    }
    return draw_svg(
        [
            LinePanel("Share of the passing advantage that is moved", "limit", lines(moved)),
            LinePanel("Share of graded groups that the cap changes", "limit", lines(rates)),
            LinePanel("Largest amplification", "limit", lines(gains)),
            DotPanel(
                "Order of the passes against the default", "Kendall's τ-b", [(n, v) for n, v in rows if v]
            ),
        ]
    )
