"""Option types that more than one command takes: the same flag means the same in every command."""

from typing import Annotated, Literal

import typer

from gagar_cli.errors import UsageError
from gagar_cli.io.dump import ReadOptions

Dumps = Annotated[
    list[str],
    typer.Argument(
        metavar="DUMP…",
        help="rollout dump: Parquet, JSONL (.gz, .zst), a folder of them, or -",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="print the summary as one JSON object")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="replace an output that exists")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="no progress and no notes on stderr")]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--field",
        metavar="CANONICAL=PATH",
        help="where a field is found in this dump, for example reward=outcome.reward",
    ),
]
Explode = Annotated[
    str | None,
    typer.Option("--explode", metavar="FIELD", help="a list of attempts in each record: one row an attempt"),
]
GroupBy = Annotated[
    str | None,
    typer.Option(
        "--group-by", metavar="FIELD", help="the field that groups attempts, where there is no group_id"
    ),
]
PassThreshold = Annotated[
    float, typer.Option("--pass-threshold", help="smallest reward that passes, where there is no `resolved`")
]
OnBadRecord = Annotated[
    Literal["fail", "skip"],
    typer.Option("--on-bad-record", help="stop at a bad record, or skip and count it"),
]

Sandbox = Annotated[
    str,
    typer.Option(
        "--sandbox", metavar="auto|docker|bubblewrap|inspect-only", help="where candidates' code may run"
    ),
]
SandboxImage = Annotated[
    str | None,
    typer.Option("--sandbox-image", help="docker image (name, tag or digest) with python3, git and tar"),
]
Runtime = Annotated[
    str | None,
    typer.Option("--runtime", metavar="NAME", help="runtime of the docker engine, for example runsc"),
]
Pull = Annotated[bool, typer.Option("--pull", help="fetch images that are not on this machine")]
Environment = Annotated[
    str | None,
    typer.Option("--env", metavar="DIR", help="virtual environment that bubblewrap sandboxes see"),
]


def read_options(
    fields: list[str] | None,
    explode: str | None,
    group_by: str | None,
    *,
    pass_threshold: float,
    on_bad_record: Literal["fail", "skip"],
) -> ReadOptions:
    """The reader's options from the flags.

    Raises:
        UsageError: a `--field` is not of the form canonical=path.
    """
    mapping: dict[str, str] = {}
    for text in fields or []:
        canonical, equals, path = text.partition("=")
        if not (canonical and equals and path):
            raise UsageError(
                f"--field is {text!r}, expected CANONICAL=PATH", "for example `--field reward=outcome.reward`"
            )
        mapping[canonical] = path
    return ReadOptions(
        fields=mapping,
        explode=explode,
        group_by=group_by,
        pass_threshold=pass_threshold,
        on_bad_record=on_bad_record,
    )
