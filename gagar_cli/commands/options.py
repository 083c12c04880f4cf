"""Option types that more than one command takes: the same flag means the same in every command."""

import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from gagar_cli.errors import UsageError
from gagar_cli.io.dump import ReadOptions

_NAMED = re.compile(r"([\w.+@-]+)=(.+)")

Dumps = Annotated[
    list[str],
    typer.Argument(
        metavar="DUMP…",
        help="rollout dump: Parquet, JSONL (.gz, .zst), a native format, a folder of files, or -",
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
        "--group-by",
        metavar="FIELD|prompt|directory",
        help="what groups attempts, where there is no group_id",
    ),
]
DumpFormat = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="native format, one of `gagar formats`  [default: by content]"
    ),
]
JoinFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--join",
        metavar="FILE",
        help="reports, predictions or test logs of these attempts, or a folder of them; repeatable",
    ),
]
PassThreshold = Annotated[
    float, typer.Option("--pass-threshold", help="smallest reward that passes, where there is no `resolved`")
]
MinGraded = Annotated[
    int | None,
    typer.Option("--min-graded", metavar="N", min=1, help="exit 4 where fewer groups than this are graded"),
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
    dump_format: str | None = None,
    joins: list[str] | None = None,
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
        format=dump_format,
        joins=tuple(joins or ()),
    )


def named_inputs(values: list[str]) -> tuple[tuple[str, str], ...]:
    """(name, path) of arguments of the form `NAME=PATH` or `PATH`, which is called by its file name.

    Raises:
        UsageError: two of them have one name.
    """
    named = []
    for value in values:
        found = None if Path(value).exists() else _NAMED.fullmatch(value)
        named.append((found[1], found[2]) if found else (_call(value), value))
    names = [name for name, _ in named]
    clash = next((name for name in names if names.count(name) > 1), None)
    if clash is not None:
        raise UsageError(f"two inputs are called {clash!r}", "name them: `first=PATH second=PATH`")
    return tuple(named)


def _call(path: str) -> str:
    name = Path(path).name
    for suffix in (".gz", ".zst", ".jsonl", ".json", ".parquet", ".pq"):
        name = name.removesuffix(suffix)
    return name or path
