"""`gagar sweep`: existing rankings under other caps, tables, tie policies and weights."""

from typing import Annotated

import typer

from gagar_cli import sweep as use_case
from gagar_cli.commands.options import (
    DumpFormat,
    Dumps,
    Explode,
    Fields,
    GroupBy,
    JoinFiles,
    Json,
    OnBadRecord,
    Overwrite,
    PassThreshold,
    Quiet,
    read_options,
)
from gagar_cli.console import progress_bar, write_note, write_summary
from gagar_cli.core.integrity_action import IntegrityAction
from gagar_cli.tables_sweep import sweep_table

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def sweep(
    dumps: Dumps,
    rankings: Annotated[
        str, typer.Option("--rankings", metavar="FILE", help="what `gagar grade` made, or - for stdin")
    ],
    limits: Annotated[
        list[float] | None,
        typer.Option("--limit", help="limits of the caps, repeatable  [default: 1.1, 1.25, 1.5, 2, 3]"),
    ] = None,
    tiers: Annotated[
        list[str] | None,
        typer.Option(
            "--tiers", metavar="FILE", help="a tier table in TOML beside the built-in ones, repeatable"
        ),
    ] = None,
    rubric: Annotated[
        str | None,
        typer.Option("--rubric", metavar="FILE", help="the rubric of the rankings  [default: the paper's]"),
    ] = None,
    integrity_action: Annotated[
        IntegrityAction,
        typer.Option(
            "--integrity-action", help="what a confirmed violation gets: a failure's reward, T3, or no change"
        ),
    ] = "zero",
    n_weights: Annotated[
        int, typer.Option("--weights", min=0, max=10_000, help="weights that are drawn around the rubric's")
    ] = 20,
    concentration: Annotated[
        float, typer.Option("--concentration", help="how near the drawn weights stay (Dirichlet)")
    ] = 30.0,
    seed: Annotated[int, typer.Option("--seed", help="seed of the drawn weights")] = 0,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE.svg", help="write the figures as a plot")
    ] = None,
    fields: Fields = None,
    explode: Explode = None,
    group_by: GroupBy = None,
    dump_format: DumpFormat = None,
    joins: JoinFiles = None,
    pass_threshold: PassThreshold = 1.0,
    on_bad_record: OnBadRecord = "fail",
    overwrite: Overwrite = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what other caps, tier tables, ties and rubric weights would make of existing rankings.

    Examples:
      gagar sweep rollouts.jsonl --rankings rankings.jsonl

      gagar sweep rollouts.jsonl --rankings rankings.jsonl --weights 200 --plot sweep.svg
    """
    settings = use_case.SweepSettings(
        dumps=tuple(dumps),
        rankings=rankings,
        read=read_options(
            fields,
            explode,
            group_by,
            pass_threshold=pass_threshold,
            on_bad_record=on_bad_record,
            dump_format=dump_format,
            joins=joins,
        ),
        tiers=tuple(tiers or ()),
        limits=tuple(limits or use_case.LIMITS),
        rubric=rubric,
        integrity_action=integrity_action,
        n_weights=n_weights,
        concentration=concentration,
        seed=seed,
        plot=plot,
        overwrite=overwrite,
    )
    with progress_bar("sweeping", quiet=quiet) as progress:
        result = use_case.run(settings, progress)
    for note in result.notes:
        write_note(f"note: {note}", quiet=quiet)
    write_summary(sweep_table(result), result.to_record(), as_json=as_json, quiet=quiet)
