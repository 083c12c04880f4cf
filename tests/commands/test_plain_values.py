"""Values taken without typer's checks, against the same values checked by typer."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer

from gagar_cli.commands.plain_values import take_plain_values

app = typer.Typer(add_completion=False)
Told = tuple[str, object]


@app.command()
def told(
    names: list[str],
    text: Annotated[str | None, typer.Option()] = None,
    texts: Annotated[list[str] | None, typer.Option()] = None,
    choice: Annotated[Literal["one", "two"], typer.Option()] = "one",
    any_case: Annotated[Literal["One", "two"], typer.Option(case_sensitive=False)] = "two",
    count: Annotated[int, typer.Option(min=0, max=10)] = 3,
    clamped: Annotated[int, typer.Option(max=5, clamp=True)] = 1,
    share: Annotated[float | None, typer.Option(min=0, max=1)] = None,
    number: Annotated[float, typer.Option()] = 1.0,
    parsed: Annotated[str, typer.Option(parser=str.upper)] = "a",
    path: Annotated[Path | None, typer.Option()] = None,
    flag: Annotated[bool, typer.Option()] = False,
) -> dict[str, object]:
    return dict(locals())


def run(arguments: list[str], *, is_plain: bool) -> Told:
    command: Any = typer.main.get_command(app)
    if is_plain:
        take_plain_values(command.params)
    try:
        result = command(arguments, standalone_mode=False)
    except typer.TyperException as error:
        return "refused", error.format_message()
    return "taken", {name: (type(value).__name__, repr(value)) for name, value in result.items()}


NUMBERS = ["0", "10", "11", "-1", "-0", "007", "+5", "1_0", " 4", "4.0", "1e1", "x", "", "9" * 30, "٣"]
FLOATS = [
    "0",
    "1",
    "0.5",
    "1.0000001",
    "-0.0",
    "-0.1",
    ".5",
    "5.",
    "1e-1",
    "nan",
    "inf",
    "0.1" + "3" * 40,
    "1,5",
]
CASES = [
    ["a"],
    [],
    ["a", "b", "--text", "", "--texts", "x", "--texts", "-", "--flag"],
    *(["a", "--count", value] for value in NUMBERS),
    *(["a", "--clamped", value] for value in NUMBERS),
    *(["a", "--share", value] for value in FLOATS),
    *(["a", "--number", value] for value in FLOATS),
    *(["a", "--choice", value] for value in ("one", "two", "One", "three", "")),
    *(["a", "--any-case", value] for value in ("one", "One", "TWO", "three")),
    ["a", "--parsed", "x", "--path", "/tmp"],
]


@pytest.mark.parametrize("arguments", CASES, ids=[" ".join(case) for case in CASES])
def test_what_is_accepted_and_what_is_said_stay_typers(arguments: list[str]) -> None:
    assert run(arguments, is_plain=True) == run(arguments, is_plain=False)


def test_taking_plain_values_twice_changes_nothing() -> None:
    command: Any = typer.main.get_command(app)
    take_plain_values(command.params)
    first = [parameter.get_runtime_param for parameter in command.params]
    take_plain_values(command.params)
    assert [parameter.get_runtime_param for parameter in command.params] == first


def test_a_redistribution_loads_nothing_that_it_has_no_use_for(tmp_path: Path) -> None:
    """What checks values that are not plain, the grader and its sandboxes: they would take longer than the work."""
    rows = [{"group_id": "g", "trajectory_id": f"t{n}", "reward": float(n > 1)} for n in range(4)]
    dump = tmp_path / "dump.jsonl"
    dump.write_text("".join(json.dumps(row) + "\n" for row in rows))
    candidates = [{"trajectory_id": f"t{n}", "tier": "T1", "rank": n} for n in (2, 3)]
    rankings = tmp_path / "rankings.jsonl"
    rankings.write_text(json.dumps({"group_id": "g", "candidates": candidates}) + "\n")
    arguments = [str(dump), "--rankings", str(rankings), "-o", str(tmp_path / "out.parquet"), "--json"]
    more = ["--limit", "1.4", "--cap", "bounded", "--max-ungraded", "0.5", "--field", "reward=reward"]
    script = (
        "import json, sys; from gagar_cli.cli import run; code = run(sys.argv[1:]); "
        "print(json.dumps([code, *sys.modules]), file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, "redistribute", *arguments, *more]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    code, *modules = json.loads(ended.stderr)
    assert code == 0
    unused = {"pydantic", "pyarrow", "rich", "gagar_cli.grader", "gagar_cli.sandbox", "asyncio", "scipy"}
    assert unused & set(modules) == set()
