"""What `--help` shows: examples that run as they are copied, values with names, lines that a terminal of 80 holds."""

import re
import shlex

import pytest

from gagar_cli.cli import COMMANDS


@pytest.fixture
def help_of(gagar, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    return lambda name: gagar(name, "--help").stdout


def examples(shown: str) -> list[str]:
    block = shown.partition("Examples:\n")[2].partition("\n\n")[0]
    return [line.strip() for line in re.sub(r"\s*\\\n\s*", " ", block).splitlines()]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_is_wider_than_a_small_terminal(help_of, name):
    assert [line for line in help_of(name).splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_is_a_command_line_of_its_own(help_of, name):
    found = examples(help_of(name))
    assert len(found) == 2
    assert all(shlex.split(line)[0] == "gagar" for line in found)
    assert any(shlex.split(line)[1] == name for line in found)


def test_a_long_example_is_one_command_for_a_shell(help_of):
    shown = help_of("override")
    assert " \\\n        --reason" in shown
    assert examples(shown)[0] == (
        "gagar override rankings.jsonl task-7 task-7-03 --tier T2 "
        '--reason "the helper existed already" --author ada'
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_no_value_is_called_by_a_type_of_python(help_of, name):
    assert re.findall(r"<\w|list\[|\brange>", help_of(name)) == []


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("agree", "[OPTIONS] [NAME=]RANKINGS…"),
        ("grade", "[OPTIONS] DUMP…"),
        ("show", "[OPTIONS] RANKINGS GROUP [DUMP…]"),
        ("tiers", "[OPTIONS] [NAME|FILE]"),
        ("clean", "[OPTIONS]"),
    ],
)
def test_the_usage_line_names_each_argument_once(help_of, name, usage):
    assert help_of(name).splitlines()[0] == f"Usage: gagar {name} {usage}"


def test_values_are_numbers_texts_or_words(help_of):
    shown = help_of("grade")
    assert "--max-turns N " in shown
    assert "--temperature X " in shown
    assert "--integrity mixed|all|off " in shown


def test_many_choices_are_told_where_lines_can_break(help_of):
    shown = " ".join(help_of("redistribute").split())
    assert "--method NAME how advantages are made: gagar, gagar- reward, downweight, dr-grpo" in shown
