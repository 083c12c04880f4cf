"""The `gagar` command: a lazy group, and the one place where errors become exit codes.

A command's module is imported when it is called: `gagar --help` needs no dataframe, endpoint or engine library.
Exit codes: 0 done, 1 stopped by an expected error, 2 usage, 3 bad input, 4 a gate not met, 130/143 interrupted.
"""

import atexit
import gc
import importlib
import os
import re
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from gagar_cli import __version__
from gagar_cli.commands.help_text import tidy_help
from gagar_cli.commands.plain_values import take_plain_values
from gagar_cli.errors import GagarError

COMMANDS = {
    "grade": ("gagar_cli.commands.grade", "Rank the passing attempts of every group by quality."),
    "redistribute": (
        "gagar_cli.commands.redistribute",
        "Move advantage from worse passing attempts to better ones.",
    ),
    "audit": ("gagar_cli.commands.audit", "Compare policies blind on the tasks that they share."),
    "calibrate": (
        "gagar_cli.commands.calibrate",
        "Measure a grader on planted flaws and injections, before it touches training.",
    ),
    "report": ("gagar_cli.commands.report", "Make one HTML page of a grading run."),
    "agree": ("gagar_cli.commands.agree", "Say how far several rankings of the same groups agree."),
    "tiers": (
        "gagar_cli.commands.tiers",
        "Show the built-in tier tables, or what one table does to example groups.",
    ),
    "stats": (
        "gagar_cli.commands.stats",
        "Count what is in a dump: pass rates, what can be ranked, lengths, and what the rankings say.",
    ),
    "sweep": (
        "gagar_cli.commands.sweep",
        "Show what other caps, tier tables, ties and rubric weights would make of existing rankings.",
    ),
    "show": ("gagar_cli.commands.show", "Show one group's ranking with the proof behind it."),
    "override": (
        "gagar_cli.commands.override",
        "Correct the place of one trajectory in a ranking, with who did it and why.",
    ),
    "head": (
        "gagar_cli.commands.head",
        "Show what a dump holds: its format and why, columns, group sizes, first records.",
    ),
    "validate": ("gagar_cli.commands.validate", "Tell everything that is wrong with a dump in one pass."),
    "convert": (
        "gagar_cli.commands.convert",
        "Write a dump of any format as canonical records, nothing lost.",
    ),
    "formats": (
        "gagar_cli.commands.formats",
        "List the native formats that are read, or show how one maps to the canonical record.",
    ),
    "demo": ("gagar_cli.commands.demo", "Grade and redistribute a small dump that comes with the program."),
    "doctor": (
        "gagar_cli.commands.doctor",
        "Say what this machine can hold hostile code with, and what an endpoint can do.",
    ),
    "clean": (
        "gagar_cli.commands.clean",
        "Remove containers, volumes and directories that killed runs left behind.",
    ),
    "offline-endpoint": (
        "gagar_cli.commands.offline_endpoint",
        "Serve the rule-based offline model over HTTP.",
    ),
}
"""Name to module and one-line help; the help repeats the first line of the command's docstring (a test compares)."""


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is typer's
        """The names of all commands, most used first."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, its module imported now; None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        if ctx is not None and ctx.obj is not None:
            ctx.obj()
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        take_plain_values(command.params if ctx is None else command.get_params(ctx))
        return tidy_help(command, ctx)

    def get_params(self, ctx: Any) -> Any:
        """The flags of `gagar` itself, `--help` among them."""
        parameters = super().get_params(ctx)
        take_plain_values(parameters)
        return parameters

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the signature is typer's
        """The table of commands, from static text."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name; a misspelt name is answered with the nearest."""
        self.commands = {name: self.commands.get(name) for name in COMMANDS}  # type: ignore[misc] # only keys are read
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=LazyGroup,
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"gagar {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="show tracebacks of errors")] = False,
) -> None:
    """Grade the passing attempts of code agents group by group, and redistribute their advantage by quality."""


def _exit_terminated(_signal_number: int, _frame: FrameType | None) -> NoReturn:
    # SystemExit, as event loops let it through wherever it strikes; typer would make 130 of a KeyboardInterrupt.
    raise SystemExit(143)


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    # numpy's linear algebra is not used, and starting its threads costs as much as a third of importing it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    signal.signal(signal.SIGTERM, _exit_terminated)
    was_enabled = gc.isenabled()
    gc.disable()  # until the command is imported
    atexit.register(gc.freeze)  # or everything is collected once more, object by object, on the way out
    try:
        exit_code = run(sys.argv[1:], imported=_settle)
    finally:  # whoever called us may go on
        gc.unfreeze()
        (gc.enable if was_enabled else gc.disable)()
    sys.exit(exit_code)


def _settle() -> None:
    """Go on as other programs do, once the command is imported."""
    # What was imported is left out: walking those many objects over and over is a fifth of a short command.
    gc.freeze()
    gc.enable()
    # polars makes the system resume what Ctrl-C has interrupted, such as reading a pipe that stays silent.
    signal.siginterrupt(signal.SIGINT, True)


def run(arguments: list[str], imported: Callable[[], None] | None = None) -> int:
    """Run one command line; its exit code comes back. Tracebacks of expected errors only with `--debug`.

    `imported` is called when the command's module is there, before the command runs.
    """
    is_debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        result = app(arguments, prog_name="gagar", standalone_mode=False, obj=imported)
    except GagarError as error:
        if is_debug:
            raise
        _write_error(error.message, error.hint)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except (BrokenPipeError, SystemExit) as error:
        # Typer makes an exit with 1 of a broken pipe.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        # The reader of our stdout has gone (`| head`): silence the flush at exit, and stop quietly.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except TyperException as error:
        _write_usage_error(error)
        return 2
    return result if isinstance(result, int) else 0


def _write_usage_error(error: Any) -> None:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "gagar"
    message = error.format_message().strip()
    if message.startswith("Usage:"):  # no arguments at all: the message is the help text
        sys.stderr.write(message + "\n")
        return
    # pydantic, which checks values for typer, begins so where a check has words of its own.
    message = re.sub(r"\A(Invalid value[^:]*: )Value error, ", r"\1", message)
    _write_error(message[0].lower() + message[1:].rstrip("."), f"see `{path} --help`")


def _write_error(message: str, hint: str | None) -> None:
    from gagar_cli.console import write_error

    write_error(message, hint)
