"""How `--help` looks: examples that can be copied, and values with names instead of Python's types.

Typer fills paragraphs anew, and calls a value `<int range>` or `<list[str]>`. Here an example stays on lines of its own,
a number is `N` or `X`, a text is `TEXT`, and a choice is its words; what an option's own `metavar` says stands.
"""

import re
from collections.abc import Iterator
from typing import Any

_EXAMPLES = "Examples:\n"
_AS_WRITTEN = "\b\n"
"""The line by which typer leaves a paragraph as it is."""
_NAMES = {"int": "N", "float": "X", "str": "TEXT"}
_MAX_COLUMNS = 76
"""Of an example and of a list of choices: with the indent, a terminal of 80 shows them whole."""
_WORD = re.compile(r"""(?:\| |-\S+ (?=[^-|]))?(?:[^\s'"]|'[^']*'|"[^"]*")+""")
"""A word of a command line; an option stays with its value, and a bar with the command behind it."""


def tidy_help(command: Any, context: Any) -> Any:
    """The command, its help made for people."""
    before, title, examples = (command.help or "").partition(_EXAMPLES)
    if title:
        lines = (part for line in examples.splitlines() for part in _fold(line))
        command.help = before + _AS_WRITTEN + _EXAMPLES + "\n".join(lines)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            _name_argument(parameter)
        elif parameter.metavar is None and not parameter.is_flag:
            _name_value(parameter, parameter.display_type(context))
    return command


def _fold(example: str) -> Iterator[str]:
    """Lines that a shell joins again; a quoted text is not broken."""
    line = ""
    for word in _WORD.findall(example):
        if line and len(line) + 1 + len(word) + 2 > _MAX_COLUMNS:
            yield f"{line} \\"
            line = f"      {word}"
        else:
            line = f"{line} {word}" if line else f"  {word}"
    if line:
        yield line


def _name_argument(argument: Any) -> None:
    # `DUMP…` says by itself that there may be several: typer would write `{DUMP…}...`, and `<list[str]>` behind it.
    shown = argument.metavar or argument.name
    is_bracketed = argument.required or (shown.startswith("[") and shown.endswith("]"))
    argument.get_usage_pieces = lambda _context: [shown if is_bracketed else f"[{shown}]"]
    argument.display_type_rich = lambda ctx: None  # noqa: ARG005 - typer names it


def _name_value(option: Any, shown: str) -> None:
    name = shown.strip("<>").removesuffix(" range").removeprefix("list[").removesuffix("]")
    if len(name) > _MAX_COLUMNS:
        option.metavar = "NAME"
        option.help = f"{option.help}: {name.replace('|', ', ')}"
    else:
        option.metavar = _NAMES.get(name, name)
