"""Which rows of an index passed, which are invalid and why, and their effective rewards."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import polars as pl

_NAMES = ("reward", "resolved", "infra_failure", "mask_sample")


class Judgment(NamedTuple):
    """What neighbouring rows come to."""

    columns: dict[str, pl.Series]
    """`reward`, `passed`, and where a row is invalid, `invalid` and `invalid_reason`."""
    n_disagree: int
    """Valid rows whose reward is on the other side of the threshold than `resolved` says: none else can contradict it."""


def judge(
    told: Mapping[str, pl.Series],
    source: pl.Series | None,
    height: int,
    *,
    has_resolved: bool,
    by_reward: Collection[int],
    paid: Collection[int],
    pass_threshold: float,
) -> Judgment:
    """The judgment of rows by those of their columns that say something.

    `source` None is the first one. `by_reward` are sources without a verdict of their own in a dump of which others have
    one: there a row passes by what was inferred of it, else by its reward. `paid` are those that have a reward somewhere:
    a file may have verdicts only, and the next one rewards only.
    """
    frame = pl.DataFrame(height=height).with_columns(told.values())
    frame = frame.with_columns(_nothing(name) for name in _NAMES if name not in told)
    frame = frame.with_columns(source=pl.lit(0, dtype=pl.UInt32) if source is None else source)
    reward = told.get("reward")
    if reward is None or reward.has_nulls():
        verdict = pl.col("resolved").cast(pl.Float64)
        is_paid = pl.col("source").is_in(list(paid))
        frame = frame.with_columns(pl.when(is_paid).then("reward").otherwise(verdict).alias("reward"))
    is_told = pl.lit(has_resolved)
    if by_reward:
        is_told &= ~pl.col("source").is_in(list(by_reward)) | pl.col("resolved").is_not_null()
    is_unjudged = is_told & pl.col("resolved").is_null()
    is_unusable = pl.col("reward").is_null() | pl.col("reward").is_nan()
    reason = (
        pl.when("infra_failure").then(pl.lit("infra_failure"))
        .when("mask_sample").then(pl.lit("mask_sample"))
        .when(is_unjudged).then(pl.lit("not_evaluated"))
        .when(is_unusable).then(pl.lit("no_reward"))
        .otherwise(pl.lit(None, dtype=pl.String))
    )  # fmt: skip
    is_bad = pl.col("infra_failure") | pl.col("mask_sample") | is_unjudged | is_unusable
    is_pass = pl.when(is_told).then("resolved").otherwise(pl.col("reward") >= pass_threshold)
    judged = frame.select(
        "reward",
        "resolved",
        invalid=is_bad,
        passed=(is_pass & ~is_bad).fill_null(value=False),
    )
    bad = judged["invalid"]
    columns = {"reward": judged["reward"], "passed": judged["passed"]}
    if bad.any():
        columns |= {
            "invalid": bad,
            "invalid_reason": frame.select(reason.alias("invalid_reason")).to_series(),
            "reward": judged.select(pl.when(~pl.col("invalid")).then("reward").alias("reward")).to_series(),
        }
    is_other = ~pl.col("invalid") & ((pl.col("reward") >= pass_threshold) != pl.col("resolved"))
    n_disagree = int(judged.select(is_other.sum()).item() or 0) if "resolved" in told else 0
    return Judgment(columns, n_disagree)


def _nothing(name: str) -> pl.Expr:
    is_number = name == "reward"
    value = None if name in ("reward", "resolved") else False
    return pl.lit(value, dtype=pl.Float64 if is_number else pl.Boolean).alias(name)
