import gc
import importlib
import signal
import subprocess
import sys
import time

import pytest
import typer
from typer.testing import CliRunner

from gagar_cli import __version__, cli
from gagar_cli.errors import InputError


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gagar_cli", *arguments], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_static_help_says_what_the_command_says(name: str):
    module = importlib.import_module(cli.COMMANDS[name][0])
    callback = module.app.registered_commands[0].callback
    assert callback.__doc__.strip().splitlines()[0] == cli.COMMANDS[name][1]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_with_an_example(name: str, capsys):
    assert cli.run([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"gagar {name}" in shown.partition("Examples:")[2]


def test_the_version_is_printed():
    done = start("--version")
    assert (done.returncode, done.stdout) == (0, f"gagar {__version__}\n")


def test_no_arguments_is_a_usage_error_that_shows_the_commands():
    done = start()
    assert done.returncode == 2
    assert "redistribute" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["grad"], "Did you mean 'grade'"),
        (["grade", "--nonsense"], "no such option"),
        (["grade", "dump.jsonl"], "missing option"),
        (["grade", "d.jsonl", "-o", "r.jsonl", "--model", "offline", "--concurrency", "0"], "concurrency"),
    ],
)
def test_a_usage_error_exits_2_with_a_hint(gagar, arguments, message):
    done = gagar(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert "hint: see `gagar" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("value", ["grp", "Value error, grp"])
def test_a_wrong_choice_is_told_without_the_words_of_a_library(gagar, value):
    done = gagar("redistribute", "d.jsonl", "-o", "a.jsonl", "--method", value)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: invalid value for '--method': '{value}' is not one of 'gagar', ")


def failing_app() -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None)

    @app.command()
    def fail() -> None:
        raise InputError("dump.jsonl:3: reward is \x1b[31m'high'", "map it")

    return app


def test_an_expected_error_is_one_line_and_a_hint(monkeypatch, capsys):
    monkeypatch.setattr(cli, "app", failing_app())
    assert cli.run([]) == 3
    assert capsys.readouterr().err == "error: dump.jsonl:3: reward is \\u{1b}[31m'high'\nhint: map it\n"


def test_debug_shows_the_traceback(monkeypatch):
    monkeypatch.setattr(cli, "app", failing_app())
    with pytest.raises(InputError):
        cli.run(["--debug"])


def test_the_group_works_under_typers_runner():
    assert "offline-endpoint" in CliRunner().invoke(cli.app, ["--help"]).stdout


def test_a_command_runs_with_the_collector_on_and_without_what_was_imported():
    """Its state as the process ends."""
    script = (
        "import atexit, gc, sys\n"
        "atexit.register(lambda: print(gc.isenabled(), gc.get_freeze_count() > 10_000, file=sys.stderr))\n"
        "sys.argv = ['gagar', 'tiers', '--json']\n"
        "from gagar_cli.cli import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "True True\n")


def test_the_collector_is_left_alone_where_the_program_is_called_from_another(gagar):
    assert gagar("tiers", "--json").returncode == 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("argument", ["--help", "--version", "no-such-command", "tiers", "broken"])
@pytest.mark.parametrize("is_on", [True, False])
def test_whoever_calls_main_finds_the_collector_as_it_was(argument, is_on):
    script = (
        "import gc, sys\n"
        "from gagar_cli import cli\n"
        "cli.COMMANDS['broken'] = ('no_such_module', '')\n"
        f"gc.{'enable' if is_on else 'disable'}()\n"
        f"sys.argv = ['gagar', {argument!r}]\n"
        "try:\n"
        "    cli.main()\n"
        "except (SystemExit, ModuleNotFoundError) as error:\n"
        "    print(type(error).__name__, gc.isenabled(), gc.get_freeze_count(), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    error = "ModuleNotFoundError" if argument == "broken" else "SystemExit"
    assert done.stderr.splitlines()[-1] == f"{error} {is_on} 0"


def test_ctrl_c_ends_a_command_that_waits_for_its_input():
    command = [sys.executable, "-m", "gagar_cli", "stats", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        # More than a pipe holds: it is being read when all of it is written.
        process.stdin.write(b'{"group_id": "g", "trajectory_id": "t", "reward": 1}\n' * 20_000)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 130
