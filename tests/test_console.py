import io
import os
import subprocess
import sys

import pytest
from rich.text import Text

from gagar_cli import console
from gagar_cli.tables import rows_table

HOSTILE = [
    "\x1b]0;title\x07",
    "\x1b]8;;http://x\x1b\\link",
    "\x1b]52;c;AAAA\x07",
    "\x1b[2J",
    "\x1bPq",
    "\x9b31m",
    "\u202eexe.py",
    "\u200bzero",
    "\x00nul",
    "a\rb",
    "\x08\x08",
    "\x7f",
    "\u2028",
    "\ufeff",
    "\ud800",
    "\U000e0041",
    "\u2066isolate",
]


def is_safe(shown: str) -> bool:
    return not any(char in shown for text in HOSTILE for char in text if not char.isprintable())


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_hostile_character_reaches_a_stream(text, capsys):
    console.write_line(text)
    console.write_note(text)
    console.write_error(text, text)
    console.print_result(rows_table("t", ["a"], [[text]]))
    captured = capsys.readouterr()
    assert is_safe(captured.out + captured.err)


@pytest.mark.parametrize("name", ["[/nope]", "[red]x[/red]", "[link=http://x]y", ":smile:"])
def test_markup_in_a_name_stays_text(name, capsys):
    console.print_result(rows_table("t", ["name"], [[name]]))
    console.print_result(Text(name))
    assert capsys.readouterr().out.count(name) == 2


def test_notes_are_silent_when_quiet(capsys):
    console.write_note("something", quiet=True)
    assert capsys.readouterr().err == ""


def test_progress_is_silent_where_stderr_is_no_terminal(capsys):
    with console.progress_bar("grading") as progress:
        progress(1, 2, "note")
    assert capsys.readouterr().err == ""


def test_progress_is_shown_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with console.progress_bar("grading") as progress:
        progress(1, 2, "3 ungraded")
    assert "grading" in terminal.getvalue()


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["tables", "JSON"])
def test_a_reader_that_has_gone_is_no_failure(tmp_path, flags):
    dump = tmp_path / "dump.jsonl"
    dump.write_text('{"group_id": "g", "trajectory_id": "t", "reward": 1}\n')
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "gagar_cli", "stats", str(dump), *flags]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
