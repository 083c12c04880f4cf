"""Every command that has `--json` prints one JSON object and nothing else, and just what docs/json.md says.

The commands come from the program itself: a new one fails here until it has a line in `CASES`. Every path that is printed
must be documented, and every path that is documented must be printed in a case, or be in `UNSEEN` with the reason.
"""

import contextlib
import io
import json
import re
import shutil
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

import pytest

from gagar_cli import cli
from tests.json_docs import PAGE, SECTIONS, Row, expand, find, leaves

DEMO = Path(str(files("gagar_cli").joinpath("demo_data")))
JUDGED = "--sandbox inspect-only"
NOWHERE = "--base-url http://127.0.0.1:9/v1 --call-attempts 1"
MORE = "--field repo=repo --join second.jsonl"
CASES = {
    "grade": (
        f"dump.jsonl -o new/rankings.jsonl --model offline {JUDGED}",
        f"dump.jsonl -o new/rankings.jsonl --model offline {JUDGED} --repeats 2",
        f"dump.jsonl -o new/rankings.jsonl --model offline {JUDGED} --dry-run",
        "dump.jsonl -o new/rankings.jsonl --dry-run --eligible step==40",
        f"bare.jsonl -o new/rankings.jsonl --model offline {JUDGED}",
    ),
    "redistribute": (
        "dump.jsonl --rankings rankings.jsonl -o new/advantages.parquet --check",
        "dump.jsonl -o new/advantages.jsonl --method grpo --dynamic-sampling",
        "bare.jsonl --rankings failed.jsonl -o new/copy.jsonl --full-copy",
    ),
    "audit": (
        f"old=dump.jsonl new=second.jsonl -o new/audit --judge-model offline {JUDGED} --tasks 2",
        f"old=dump.jsonl new=second.jsonl -o new/audit --judge-model offline {JUDGED} --pairwise --tasks 0",
        f"a=dump.jsonl b=second.jsonl c=bare.jsonl -o new/audit --judge-model offline --judge-model offline {JUDGED}",
        f"a=dump.jsonl b=second.jsonl -o new/audit --judge-model m {NOWHERE} {JUDGED} --tasks 1",
        "-o audit --unblind --gate win_rate.value>=0",
    ),
    "calibrate": (
        f"dump.jsonl -o new/calibration --model offline {JUDGED} --originals 2 --repeats 2",
        f"dump.jsonl -o new/calibration --model offline {JUDGED} --originals 1 --flaws-per-group 1",
        f"dump.jsonl -o new/calibration --model m {NOWHERE} {JUDGED} --originals 1",
    ),
    "report": (
        "failed.jsonl -o new/report.html",
        "rankings.jsonl -o new/report.html --advantages advantages.parquet",
    ),
    "agree": ("first=rankings.jsonl second=second-rankings.jsonl", "a=one.jsonl b=rankings.jsonl"),
    "tiers": ("", "strict --cap none"),
    "stats": ("dump.jsonl", "dump.jsonl failed.jsonl --by step", "dump.jsonl --by repo"),
    "sweep": ("dump.jsonl --rankings rankings.jsonl", "dump.jsonl --rankings one.jsonl --weights 0"),
    "show": (
        "rankings.jsonl shelfmark__shelfmark-31",
        "rankings.jsonl shelfmark__shelfmark-44 dump.jsonl --conversation",
        "rankings.jsonl shelfmark__shelfmark-52",
    ),
    "override": (
        "copy.jsonl shelfmark__shelfmark-31 shelfmark__shelfmark-31-02 --tier violation --reason x --author a",
    ),
    "head": ("dump.jsonl", "bare.jsonl -n 1"),
    "validate": ("bare.jsonl", "broken.jsonl"),
    "convert": ("dump.jsonl -o new/canonical.parquet", "bare.jsonl -o new/canonical.jsonl"),
    "formats": ("", "swe-agent"),
    "demo": (f"-o new/demo {JUDGED}",),
    "doctor": ("", "--model offline"),
    "clean": ("",),
}
EXIT_CODES = {CASES["grade"][-1]: 1, CASES["audit"][-2]: 1, CASES["calibrate"][-1]: 1, "broken.jsonl": 3}
"""Of the cases that end otherwise than with 0: no group is graded, a dump is broken."""
SHARED = {
    "grade": ("spending",),
    "redistribute": ("effects",),
    "audit": ("estimate", "difference", "a-comparison", "alpha"),
    "calibrate": ("the-card-of-a-grader", "share-of-cases", "estimate-over-groups"),
    "tiers": ("a-tier-table",),
    "stats": ("numbers-of-a-dump",),
    "override": ("an-override",),
}
"""The shared parts that a command's cases show whole; the files' own are shown by `test_files`."""
FILES = ("a-line-of-rankings", "rankingsrunjson")
UNSEEN = {
    "breaches[]": "no method breaks an invariant",
    "warnings[]": "depends on the machine",
    "backends[].opens[].attack": "depends on the machine",
    "backends[].opens[].instead": "depends on the machine",
    "containers_and_volumes[]": "another run would have to be killed (tests/sandbox/test_leftovers.py)",
    "control_groups[]": "another run would have to be killed",
    "directories[]": "another run would have to be killed",
    "grader.tokens.estimated": "an endpoint that reports no usage (tests/grader/test_client.py)",
    "grader.late[]": "a dump that grows (tests/test_grade_follow.py)",
}
"""Paths that no case shows, and why."""


def has_json(name: str) -> bool:
    command = cli.LazyGroup().get_command(None, name)
    return any("--json" in parameter.opts for parameter in command.params)


def refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is no JSON")


def refuse_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)), f"a name is there twice: {names}"
    return dict(pairs)


def write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def bare(record: dict[str, Any]) -> dict[str, Any]:
    """As little as a record may have, in a shape that notes are made of: failures are paid a little."""
    kept = {name: record[name] for name in ("step", "group_id", "instance_id", "trajectory_id")}
    return {**kept, "reward": {True: 1.0, False: 0.2, None: None}[record["resolved"]], "advantage": 0.5}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with what commands read: the demo's dump and others, rankings, advantages, an audit."""
    folder = tmp_path_factory.mktemp("made")
    lines = (DEMO / "demo-rollouts.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    write_lines(folder / "dump.jsonl", records)
    write_lines(
        folder / "second.jsonl",
        ({**record, "trajectory_id": f"x-{record['trajectory_id']}"} for record in reversed(records)),
    )
    write_lines(folder / "bare.jsonl", map(bare, records))
    write_lines(folder / "broken.jsonl", [{"group_id": "g", "trajectory_id": "t", "reward": "high"}])
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with contextlib.chdir(folder), quiet[0], quiet[1]:
        for line in (
            f"grade dump.jsonl -o rankings.jsonl --model offline {JUDGED} --price-in 1 --price-out 2",
            f"grade dump.jsonl -o second-rankings.jsonl --model offline {JUDGED} --mode pointwise-static",
            f"grade dump.jsonl -o repeated.jsonl --model offline {JUDGED} --repeats 2 --repeat-share 0.9 {MORE}",
            "redistribute dump.jsonl --rankings rankings.jsonl -o advantages.parquet",
            f"audit old=dump.jsonl new=second.jsonl -o audit --judge-model offline {JUDGED} --tasks 2",
        ):
            assert cli.run(line.split()) == 0, line
    rankings = [json.loads(line) for line in (folder / "rankings.jsonl").read_text().splitlines()]
    graded = [ranking for ranking in rankings if ranking["status"] == "graded"]
    write_lines(folder / "one.jsonl", graded[:1])
    failed = {"step": 40, "group_id": graded[1]["group_id"], "status": "ungraded", "reason": "endpoint: gone"}
    write_lines(folder / "failed.jsonl", [graded[0], failed])
    return folder


def run_case(gagar, name: str, arguments: str) -> dict[str, Any]:
    """What one command prints, with a new folder for what it writes."""
    shutil.rmtree("new", ignore_errors=True)
    Path("new").mkdir()
    shutil.copy("rankings.jsonl", "copy.jsonl")
    done = gagar(name, *arguments.split(), "--json")
    assert done.returncode == EXIT_CODES.get(arguments, 0), done.stderr
    found = json.loads(done.stdout, parse_constant=refuse, object_pairs_hook=refuse_twins)
    assert found.pop("schema_version") == 1
    assert found
    assert done.stdout.isascii()
    assert done.stdout.endswith("}\n")
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr
    return found


def rows_of(records: Iterable[dict[str, Any]], section: str) -> set[Row]:
    """The rows that describe what is there; fails for what none describes."""
    documented = list(expand(section))
    rows = {path: find(path, value, documented) for record in records for path, value in leaves(record)}
    assert sorted(".".join(path) for path, found in rows.items() if not found) == [], f"not in {PAGE.name}"
    return set().union(*rows.values())


def never_seen(seen: set[Row], sections: Iterable[str]) -> list[str]:
    rows = [row for section in sections for row in SECTIONS[section]]
    ends = [row for row in rows if row.block is None or not SECTIONS[row.block]]
    return [row.path for row in ends if row not in seen and row.path not in UNSEEN]


def test_every_command_with_json_has_a_case_and_a_section_and_no_other():
    named = {name for name in cli.COMMANDS if has_json(name)}
    assert named == set(CASES)
    assert {f"gagar-{name}" for name in named} == {name for name in SECTIONS if name.startswith("gagar-")}


@pytest.mark.parametrize("name", CASES)
def test_a_command_prints_one_strict_object_of_documented_keys(name, made, gagar, monkeypatch):
    monkeypatch.chdir(made)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    printed = []
    for arguments in CASES[name]:
        printed.append(run_case(gagar, name, arguments))
        for path in (Path("new/audit/summary.json"), Path("new/calibration/card.json")):
            if path.exists():
                assert json.loads(path.read_text()) == {"schema_version": 1, **printed[-1]}
    seen = rows_of(printed, f"gagar-{name}")
    assert never_seen(seen, (f"gagar-{name}", *SHARED.get(name, ()))) == []


def test_files_hold_documented_keys(made, gagar, monkeypatch):
    monkeypatch.chdir(made)
    run_case(gagar, "override", CASES["override"][0])
    names = ("rankings", "repeated", "second-rankings", "copy")
    lines = [json.loads(line) for name in names for line in Path(f"{name}.jsonl").read_text().splitlines()]
    settings = [json.loads(Path(f"{name}.jsonl.run.json").read_text()) for name in names[:3]]
    assert {each.pop("schema_version") for each in settings} == {1}
    assert never_seen(rows_of(lines, FILES[0]), FILES[:1]) == []
    assert never_seen(rows_of(settings, FILES[1]), FILES[1:]) == []


def test_every_shared_part_is_shown_whole_by_some_case():
    parts = {row.block for rows in SECTIONS.values() for row in rows if row.block and SECTIONS[row.block]}
    shown = {part for parts in SHARED.values() for part in parts}
    assert {part for part in parts if not part.startswith("gagar-")} == shown | {FILES[0]}


def test_what_no_case_shows_is_marked_as_conditional():
    rows = [row for rows in SECTIONS.values() for row in rows if row.path in UNSEEN]
    assert {row.path for row in rows} == set(UNSEEN)
    assert [row.path for row in rows if not row.is_conditional] == []


def test_the_labels_of_the_page_are_enough_to_agree_with(made, gagar, monkeypatch, tmp_path):
    [label] = re.findall(r"```json\n(.*)\n```", PAGE.read_text(encoding="utf-8"))
    shutil.copy(made / "rankings.jsonl", tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("labels.jsonl").write_text(label + "\n")
    found = json.loads(gagar("agree", "grader=rankings.jsonl", "person=labels.jsonl", "--json").stdout)
    assert found["n_groups_by_ranking"] == {"grader": 3, "person": 1}
    assert found["pairs"][0]["n_candidates"] == 5
    assert found["pairs"][0]["same_tier"]["value"] == 1.0
