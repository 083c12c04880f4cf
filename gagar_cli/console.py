"""Standard output and error: what may be written where, and how untrusted text gets there.

stdout carries one kind of thing: the result table, one JSON object, or records. Everything else is stderr's.
Strings from dumps, endpoints and sandboxes pass `escape_untrusted` here; markup is off everywhere, so that a
candidate named `[/red]` stays a name. Colour obeys `NO_COLOR` and is off where the stream is no terminal.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gagar_cli.core.summaries import versioned
from gagar_cli.core.text import escape_untrusted
from gagar_cli.progress import ProgressCallback, no_progress

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


PIPE_COLUMNS = 120


def make_console(*, stderr: bool = False) -> "Console":
    """A rich console that interprets no markup, emoji or links in what it prints."""
    from rich.console import Console

    class PlainConsole(Console):
        def on_broken_pipe(self) -> None:
            # Rich would end the program with 1: a reader that has seen enough (`| head`) is no failure.
            raise BrokenPipeError

    stream = sys.stderr if stderr else sys.stdout
    # A pipe has no width: tables in a log or a file read better wide.
    width = None if stream.isatty() else PIPE_COLUMNS
    return PlainConsole(file=stream, width=width, markup=False, emoji=False, highlight=False, soft_wrap=True)


def write_line(text: str) -> None:
    """One line of a result to stdout, made safe for a terminal."""
    sys.stdout.write(escape_untrusted(text) + "\n")


def write_note(text: str, *, quiet: bool = False) -> None:
    """A line for people to stderr: what was chosen, what was skipped. Nothing with `--quiet`."""
    if not quiet:
        sys.stderr.write(escape_untrusted(text) + "\n")
        sys.stderr.flush()


def write_error(message: str, hint: str | None = None) -> None:
    """`error: …` and, where there is one, `hint: …` to stderr."""
    sys.stderr.write(f"error: {escape_untrusted(message)}\n")
    if hint:
        sys.stderr.write(f"hint: {escape_untrusted(hint)}\n")
    sys.stderr.flush()


def print_result(renderable: "RenderableType", *, stderr: bool = False) -> None:
    """A table or text of rich, to stdout by default."""
    make_console(stderr=stderr).print(renderable)


def write_summary(
    table: "RenderableType | None",
    record: Mapping[str, object],
    *,
    as_json: bool,
    to_stderr: bool = False,
    quiet: bool = False,
) -> None:
    """The result of a command: one JSON object or a table on stdout; on stderr where stdout carries records."""
    if as_json:
        sys.stdout.write(json.dumps(versioned(record), ensure_ascii=True, allow_nan=False) + "\n")
    elif table is not None and not (to_stderr and quiet):
        print_result(table, stderr=to_stderr)


@contextmanager
def progress_bar(label: str, *, quiet: bool = False) -> Iterator[ProgressCallback]:
    """A progress bar on stderr while the block runs; silent with `quiet` or where stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield no_progress
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=make_console(stderr=True), transient=True) as progress:
        task_id = progress.add_task(label, total=None, note="")

        def report(n_done: int, n_total: int, note: str) -> None:
            progress.update(
                task_id, completed=n_done, total=n_total, note=escape_untrusted(note, keep_newlines=False)
            )

        yield report
