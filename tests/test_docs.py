"""Every command that the documentation shows is run, in the order in which it is shown."""

import contextlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DEMO = Path(str(files("gagar_cli").joinpath("demo_data")))
COMMAND = re.compile(r"^\$ (.+)$", re.MULTILINE)
DOCUMENTED_PORT = "127.0.0.1:8000"


def commands(page: Path) -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return [command for block in blocks for command in COMMAND.findall(block)]


@contextlib.contextmanager
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


def lay_out(folder: Path) -> None:
    """What a reader of the documentation has beside them: a dump, repositories, a tier table, grouped attempts."""
    dump = DEMO / "demo-rollouts.jsonl"
    (folder / "rollouts.jsonl").write_bytes(dump.read_bytes())
    rubric = ROOT / "examples" / "library_rubric.toml"
    (folder / rubric.name).write_bytes(rubric.read_bytes())
    (folder / "repos").symlink_to(DEMO / "repositories")
    redistribution = (ROOT / "docs" / "redistribution.md").read_text(encoding="utf-8")
    (folder / "tiers.toml").write_text(re.search(r"```toml\n(.*?)```", redistribution, re.DOTALL)[1])
    tasks: dict[str, dict] = {}
    for record in map(json.loads, dump.read_text().splitlines()):
        task = tasks.setdefault(record["group_id"], {"instance_id": record["group_id"], "attempts": []})
        attempt = {name: record[name] for name in ("model_patch", "resolved", "messages")}
        task["attempts"].append({"attempt_id": record["trajectory_id"], **attempt})
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks.values()))
    grading = [
        "grade",
        "rollouts.jsonl",
        "-o",
        "rankings.jsonl",
        "--model",
        "offline",
        "--sandbox",
        "inspect-only",
    ]
    halves = {"step100.jsonl": 0, "step200.jsonl": 1}
    for name, half in halves.items():
        kept = [line for number, line in enumerate(dump.read_text().splitlines()) if number % 2 == half]
        (folder / name).write_text("\n".join(kept) + "\n")
    if not (folder / "rankings.jsonl").exists():
        subprocess.run(
            [sys.executable, "-m", "gagar_cli", *grading], cwd=folder, check=True, capture_output=True
        )
    (folder / "labels.jsonl").write_bytes((folder / "rankings.jsonl").read_bytes())


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path):
    makes_rankings = page.name in ("README.md", "grading.md", "dumps.md")
    with offline_endpoint() as address:
        lay_out(tmp_path)
        if makes_rankings:
            for made in tmp_path.glob("rankings.jsonl*"):
                made.unlink()
        for command in commands(page):
            if command.startswith("make "):
                assert re.search(rf"^{command.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
                continue
            shell = command.replace(DOCUMENTED_PORT, address)
            shell = re.sub(r"\bgagar\b", f"{shlex.quote(sys.executable)} -m gagar_cli", shell)
            done = subprocess.run(
                shell, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=120
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_the_outputs_in_the_readme_are_what_the_commands_print(tmp_path: Path):
    lay_out(tmp_path)
    for made in tmp_path.glob("rankings.jsonl*"):
        made.unlink()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first, second = [command for command in commands(ROOT / "README.md") if command.startswith("gagar")][:2]
    printed = ""
    for command in (first, second, "gagar demo -o out"):
        words = [sys.executable, "-m", "gagar_cli", *shlex.split(command)[1:]]
        printed += subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    lines = {" ".join(line.split()) for line in printed.splitlines()}
    shown = [
        line for block in re.findall(r"```text\n(.*?)```", readme, re.DOTALL) for line in block.splitlines()
    ]
    assert len(shown) > 40
    assert [line for line in shown if " ".join(line.split()) not in lines] == []


def test_the_documentation_shows_commands():
    assert sum(len(commands(page)) for page in PAGES) >= 6


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path):
    targets = re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []
