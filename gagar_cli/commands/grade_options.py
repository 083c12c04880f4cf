"""Options of `gagar grade` that are many: budgets of a group and of the run, prices, sandboxes' limits."""

import math
from typing import Annotated

import typer

from gagar_cli.core.spending import Budget, Prices
from gagar_cli.errors import UsageError
from gagar_cli.io.prices import read_prices

Output = Annotated[
    str, typer.Option("--output", "-o", help="rankings: .jsonl (resumable), .parquet, or - for stdout")
]
GraderModel = Annotated[
    str | None,
    typer.Option(
        "--model", help="grader model; `offline` is the rule-based one; only --dry-run does without"
    ),
]
MaxTurns = Annotated[int, typer.Option("--max-turns", min=1, help="replies a group")]
MaxGroupTokens = Annotated[
    int, typer.Option("--max-group-tokens", min=1, help="input and output tokens a group")
]
MaxGroupSeconds = Annotated[float, typer.Option("--max-group-seconds", min=1, help="wall time a group")]
Concurrency = Annotated[
    int, typer.Option("--concurrency", min=1, max=1024, help="calls on their way to the endpoint at a time")
]
Repos = Annotated[
    str | None,
    typer.Option(
        "--repos", metavar="DIR", help="repositories by instance_id or repo@base_commit, or clones by repo"
    ),
]
SandboxMemory = Annotated[float, typer.Option("--sandbox-memory", min=0.0625, help="GiB a sandbox")]
SandboxCpus = Annotated[float, typer.Option("--sandbox-cpus", min=0.01, help="processors a sandbox")]
CheckSeconds = Annotated[float, typer.Option("--check-seconds", min=1, help="longest command in a sandbox")]
Seed = Annotated[int, typer.Option("--seed", help="of the blind order of candidates")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="grade at most this many groups")]
LedgerPath = Annotated[str | None, typer.Option("--ledger", help="with -o -: where to keep what is done")]
MaxUngraded = Annotated[
    float | None,
    typer.Option("--max-ungraded", min=0, max=1, help="exit 4 above this share of ungraded groups"),
]
Eligible = Annotated[
    str | None,
    typer.Option(
        "--eligible",
        metavar="EXPR",
        help="rank only passing attempts for which this holds, for example 'task_type == \"code\"'",
    ),
]
ShardOption = Annotated[
    str | None,
    typer.Option("--shard", metavar="I/N", help="only the groups of this shard, by a digest of their key"),
]
MaxTokensTotal = Annotated[
    int | None,
    typer.Option("--max-tokens-total", min=1, help="take no new groups once the run has used these tokens"),
]
MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost", min=0, help="take no new groups once the run has cost this; needs prices"),
]
PriceIn = Annotated[float | None, typer.Option("--price-in", min=0, help="money for a million input tokens")]
PriceOut = Annotated[
    float | None, typer.Option("--price-out", min=0, help="money for a million output tokens")
]
PriceCached = Annotated[
    float | None,
    typer.Option("--price-cached", min=0, help="money for a million input tokens from the cache"),
]
PriceFile = Annotated[
    str | None, typer.Option("--prices", metavar="FILE", help="a TOML table of prices by model")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="say what the run would take; ask no endpoint, write nothing")
]


def asked_model(model: str | None, *, dry_run: bool) -> str:
    """The model's name; empty for a dry run without one.

    Raises:
        UsageError: it is missing.
    """
    if not model and not dry_run:
        raise UsageError("--model is missing", "`--model offline` is the rule-based grader, without endpoint")
    return model or ""


def budget(max_tokens_total: int | None, max_cost: float | None) -> Budget:
    """The budget of a run from its flags.

    Raises:
        UsageError: a limit that is none.
    """
    _refuse_endless("--max-cost", max_cost)
    return Budget(max_tokens_total, max_cost)


def prices(
    model: str,
    *,
    price_in: float | None,
    price_out: float | None,
    price_cached: float | None,
    price_file: str | None,
) -> Prices | None:
    """The prices from the flags, or from the table for this model; None where there are none, or no model is named.

    Raises:
        UsageError: flags that exclude each other or belong together, an endless price, or a table without the model.
    """
    flags = (price_in, price_out, price_cached)
    for flag, value in zip(("--price-in", "--price-out", "--price-cached"), flags, strict=True):
        _refuse_endless(flag, value)
    if price_file is not None:
        if flags != (None, None, None):
            raise UsageError("--prices and --price-… both give prices", "leave one of them out")
        return read_prices(price_file, model) if model else None
    if flags == (None, None, None):
        return None
    if price_in is None or price_out is None:
        raise UsageError("--price-in and --price-out go together", "0 for what costs nothing")
    return Prices(price_in, price_out, price_cached)


def _refuse_endless(flag: str, value: float | None) -> None:
    if value is not None and not math.isfinite(value):
        raise UsageError(f"{flag} is {value}, expected a number")
