"""Every command that the documentation shows is run, in the order in which it is shown.

The first command of each name is a process of its own, and so is what needs a shell. The others run inside the test:
what they do is the same, and starting Python for each would take most of the time.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from gagar_cli import cli

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
DEMO = Path(str(files("gagar_cli").joinpath("demo_data")))
COMMAND = re.compile(r"^\$ (.+)$", re.MULTILINE)
DOCUMENTED_PORT = "127.0.0.1:8000"
SHELL = {"|", ">", ">>", "<", "&&", "||", ";"}
MAKE_RANKINGS = ("README.md", "grading.md", "dumps.md")
"""Pages that show how `rankings.jsonl` is made; on the others a reader has it already."""

Run = Callable[[str], str]


def commands(page: Path) -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return [command for block in blocks for command in COMMAND.findall(block)]


def first_of_each_name() -> set[str]:
    first: dict[str, str] = {}
    for page in PAGES:
        for command in commands(page):
            first.setdefault(" ".join(command.split()[:2]), command)
    return set(first.values())


STARTED = first_of_each_name()


@pytest.fixture(scope="session")
def offline_endpoint() -> Iterator[str]:
    arguments = [sys.executable, "-m", "gagar_cli", "offline-endpoint", "--port", "0"]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        yield re.search(r"127\.0\.0\.1:\d+", line)[0]
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


@pytest.fixture(scope="session")
def rankings(tmp_path_factory) -> Path:
    """A graded demo dump, with what `gagar grade` leaves beside its rankings."""
    folder = tmp_path_factory.mktemp("graded")
    dump, output = str(DEMO / "demo-rollouts.jsonl"), str(folder / "rankings.jsonl")
    assert cli.run(["grade", dump, "-o", output, "--model", "offline", "--sandbox", "inspect-only"]) == 0
    return folder


def lay_out(folder: Path, rankings: Path) -> None:
    """What a reader of the documentation has beside them: a dump, repositories, a tier table, grouped attempts."""
    dump = DEMO / "demo-rollouts.jsonl"
    (folder / "rollouts.jsonl").write_bytes(dump.read_bytes())
    rubric = ROOT / "examples" / "library_rubric.toml"
    (folder / rubric.name).write_bytes(rubric.read_bytes())
    (folder / "repos").symlink_to(DEMO / "repositories")
    redistribution = (ROOT / "docs" / "redistribution.md").read_text(encoding="utf-8")
    (folder / "tiers.toml").write_text(re.search(r"```toml\n(.*?)```", redistribution, re.DOTALL)[1])
    lines = dump.read_text().splitlines()
    tasks: dict[str, dict] = {}
    for record in map(json.loads, lines):
        task = tasks.setdefault(record["group_id"], {"instance_id": record["group_id"], "attempts": []})
        attempt = {name: record[name] for name in ("model_patch", "resolved", "messages")}
        task["attempts"].append({"attempt_id": record["trajectory_id"], **attempt})
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks.values()))
    for name, half in {"step100.jsonl": 0, "step200.jsonl": 1}.items():
        (folder / name).write_text("\n".join(lines[half::2]) + "\n")
    for made in rankings.iterdir():
        (folder / made.name).write_bytes(made.read_bytes())
    (folder / "labels.jsonl").write_bytes((folder / "rankings.jsonl").read_bytes())


@pytest.fixture
def run(tmp_path, rankings, monkeypatch, capfd, request) -> Run:
    """Run a command as it is shown, beside what a reader has; what it prints comes back."""
    lay_out(tmp_path, rankings)
    monkeypatch.chdir(tmp_path)
    capfd.readouterr()

    def run_command(command: str) -> str:
        line = command
        if command.startswith("make "):
            recipe = rf"^{command.split()[1]}: \$\(READY\)\n\t@\$\(BIN\)/(.+)$"
            line = re.search(recipe, (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
            if not line.startswith("gagar "):
                return ""
        if command == "source .venv/bin/activate":
            assert re.search(r"^VENV := \.venv$", (ROOT / "Makefile").read_text(), re.MULTILINE)
            return ""
        if command.startswith("cd "):
            monkeypatch.chdir(command.split()[1])
            # The checkpoints of the examples are a reader's own.
            for name in ("step100.jsonl", "step200.jsonl"):
                Path(name).symlink_to(tmp_path / name)
            return ""
        if DOCUMENTED_PORT in line:
            line = line.replace(DOCUMENTED_PORT, request.getfixturevalue("offline_endpoint"))
            line = line.replace("--model my-model", "--model offline")
        if command in STARTED or not SHELL.isdisjoint(shlex.split(command)):
            line = re.sub(r"\bgagar\b", f"{shlex.quote(sys.executable)} -m gagar_cli", line)
            done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            return done.stdout
        exit_code = cli.run(shlex.split(line)[1:])
        printed = capfd.readouterr()
        assert exit_code == 0, f"{command}\n{printed.out}\n{printed.err}"
        return printed.out

    return run_command


def remove_rankings() -> None:
    for made in Path().glob("rankings.jsonl*"):
        made.unlink()


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != README and commands(page)], ids=lambda page: page.name
)
def test_the_commands_of_a_page_run(page: Path, run: Run):
    if page.name in MAKE_RANKINGS:
        remove_rankings()
    for command in commands(page):
        run(command)


def test_the_commands_of_the_readme_run_and_print_what_it_shows(run: Run):
    remove_rankings()
    printed = "\n".join(run(command) for command in commands(README))
    lines = {" ".join(line.split()) for line in printed.splitlines()}
    shown = [
        line
        for block in re.findall(r"```text\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(shown) > 40
    assert [line for line in shown if " ".join(line.split()) not in lines] == []


def test_the_documentation_shows_commands():
    assert sum(len(commands(page)) for page in PAGES) >= 6


def test_every_command_that_is_shown_is_started_once_as_a_process():
    shown = {
        command.split()[1] for page in PAGES for command in commands(page) if command.startswith("gagar ")
    }
    assert {command.split()[1] for command in STARTED if command.startswith("gagar ")} == shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path):
    targets = re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []
