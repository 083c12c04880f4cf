"""`gagar validate`: flags to settings, one call, print what is wrong."""

import typer

from gagar_cli import validate as use_case
from gagar_cli.commands.options import (
    DumpFormat,
    Dumps,
    Explode,
    Fields,
    GroupBy,
    JoinFiles,
    Json,
    PassThreshold,
    Quiet,
    read_options,
)
from gagar_cli.console import progress_bar, write_note, write_summary
from gagar_cli.errors import InputError
from gagar_cli.tables_dumps import validate_table

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def validate(
    dumps: Dumps,
    fields: Fields = None,
    explode: Explode = None,
    group_by: GroupBy = None,
    dump_format: DumpFormat = None,
    joins: JoinFiles = None,
    pass_threshold: PassThreshold = 1.0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Tell everything that is wrong with a dump in one pass.

    Exit code 3 where anything is wrong.

    Examples:
      gagar validate rollouts.jsonl

      gagar validate rollouts.jsonl --json
    """
    read = read_options(
        fields,
        explode,
        group_by,
        pass_threshold=pass_threshold,
        on_bad_record="skip",
        dump_format=dump_format,
        joins=joins,
    )
    with progress_bar("validating", quiet=quiet) as progress:
        result = use_case.run(use_case.ValidateSettings(tuple(dumps), read), progress)
    for note in result.notes:
        write_note(f"note: {note}", quiet=quiet)
    write_summary(validate_table(result), result.to_record(), as_json=as_json)
    if result.n_problems:
        lines = list(result.problems)
        if result.n_problems > len(lines):
            lines.append(f"… and {result.n_problems - len(lines):,} more")
        raise InputError("\n".join(lines), result.hint)
