import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from gagar_cli.commands.redistribute import redistribute
from gagar_cli.core.caps import CAPS
from gagar_cli.core.estimators import METHODS, PRESETS

SEED = [
    {"group_id": "g", "trajectory_id": name, "resolved": resolved}
    for name, resolved in (("a", True), ("b", True), ("c", False), ("d", False))
]
RANKING: dict[str, Any] = {
    "group_id": "g",
    "candidates": [
        {"trajectory_id": "a", "tier": "T1", "rank": 1},
        {"trajectory_id": "b", "tier": "T3", "rank": 1},
    ],
}


def as_lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dump.jsonl").write_text(as_lines(SEED))
    (tmp_path / "rankings.jsonl").write_text(as_lines([RANKING]))
    return tmp_path


InProcess = Callable[..., Any]


@pytest.fixture
def in_process(folder: Path, gagar: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> InProcess:
    """The command within this process, in the folder."""
    monkeypatch.chdir(folder)
    return partial(gagar, "redistribute")


def gagar(folder: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gagar_cli", "redistribute", *arguments]
    return subprocess.run(command, cwd=folder, input=stdin, capture_output=True, text=True, timeout=60)


def advantages(text: str) -> list[float]:
    return [json.loads(line)["advantage"] for line in text.splitlines()]


def test_summary_goes_to_stdout_and_advantages_to_the_file(folder: Path) -> None:
    done = gagar(folder, "dump.jsonl", "--rankings", "rankings.jsonl", "-o", "out.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    assert "failures unchanged" in done.stdout
    assert "not the paper's" in done.stdout
    assert advantages((folder / "out.jsonl").read_text()) == [0.75, 0.25, -0.5, -0.5]


def test_json_summary_is_one_object_and_nothing_else(in_process: InProcess) -> None:
    done = in_process("dump.jsonl", "--rankings", "rankings.jsonl", "-o", "out.parquet", "--json")
    summary = json.loads(done.stdout)
    assert (summary["capped_share"], summary["ungraded_share"]) == (1.0, 0.0)
    assert summary["options"]["cap"] == "bounded"
    assert [summary[f"n_{status}"] for status in ("graded", "skipped", "ungraded")] == [1, 0, 0]
    assert summary["effects"]["n_changed_failures"] == 0
    assert summary["paper_effects"]["n_changed_failures"] == 2


@pytest.mark.parametrize("is_dump_piped", [True, False], ids=["dump", "rankings"])
def test_pipe_in_and_out_keeps_stdout_for_records(folder: Path, *, is_dump_piped: bool) -> None:
    dump, rankings = ("-", "rankings.jsonl") if is_dump_piped else ("dump.jsonl", "-")
    text = as_lines(SEED) if is_dump_piped else as_lines([RANKING])
    done = gagar(folder, dump, "--rankings", rankings, "-o", "-", "--paper", stdin=text)
    assert done.returncode == 0
    assert advantages(done.stdout) == [0.775, 0.175, -0.475, -0.475]
    assert "Redistribution" in done.stderr


def test_full_copy_to_stdout_has_the_lines_of_the_dump(folder: Path) -> None:
    done = gagar(folder, "dump.jsonl", "--rankings", "rankings.jsonl", "-o", "-", "--full-copy", "-q")
    first = done.stdout.splitlines()[0]
    assert first.startswith('{"group_id": "g", "trajectory_id": "a", "resolved": true, "advantage": 0.75, ')
    assert done.stderr == ""


def test_reader_that_leaves_early_is_no_error(folder: Path) -> None:
    rows = [{**row, "group_id": f"g{n}"} for n in range(2000) for row in SEED]
    (folder / "dump.jsonl").write_text(as_lines(rows))
    command = f"{sys.executable} -m gagar_cli redistribute dump.jsonl --method dr-grpo -o - -q | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=folder, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert advantages(done.stdout) == [0.5]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        pytest.param(
            ("-o", "-", "--json"), 2, "error: --json and `-o -` both want stdout", id="json-to-stdout"
        ),
        pytest.param(
            ("-o", "x.jsonl", "--paper", "--cap", "none"), 2, "error: --paper contradicts", id="paper"
        ),
        pytest.param(("-o", "x.csv"), 2, "error: -o is x.csv, expected .parquet", id="suffix"),
        pytest.param(("-o", "x.jsonl", "--cap", "tight"), 2, "error: ", id="cap"),
        pytest.param(
            ("-o", "x.jsonl", "--tiers", "bad.toml"), 2, "error: bad.toml:1: unknown key t4", id="tiers"
        ),
        pytest.param(("-o", "bad.jsonl"), 1, "error: bad.jsonl: exists already", id="exists"),
        pytest.param(("-o", "dump.jsonl"), 2, "error: -o is dump.jsonl, which is read", id="input"),
        pytest.param(("-o", "no/x.jsonl"), 1, "error: no: no such directory", id="folder"),
    ],
)
def test_refusals_name_what_to_mend(
    folder: Path, in_process: InProcess, arguments: tuple[str, ...], exit_code: int, message: str
) -> None:
    (folder / "bad.toml").write_text("t4 = 0.1\n")
    (folder / "bad.jsonl").touch()
    done = in_process("dump.jsonl", "--rankings", "rankings.jsonl", *arguments)
    assert (done.returncode, done.stdout) == (exit_code, "")
    assert done.stderr.startswith(message)
    assert not (folder / "x.jsonl").exists()


def test_bad_data_is_placed_by_file_and_line(folder: Path, in_process: InProcess) -> None:
    (folder / "rankings.jsonl").write_text(as_lines([RANKING]) + '{"group_id": "g", "status": "done"}\n')
    done = in_process("dump.jsonl", "--rankings", "rankings.jsonl", "-o", "out.jsonl")
    assert done.returncode == 3
    assert done.stderr.startswith("error: rankings.jsonl:2: status is")


def test_ranking_of_a_failing_trajectory_names_it(folder: Path, in_process: InProcess) -> None:
    entry = {"trajectory_id": "c", "tier": "T1", "rank": 1}
    (folder / "rankings.jsonl").write_text(as_lines([{**RANKING, "candidates": [entry]}]))
    done = in_process("dump.jsonl", "--rankings", "rankings.jsonl", "-o", "out.jsonl")
    assert done.returncode == 3
    assert 'trajectory "c" did not pass (dump.jsonl:3)' in done.stderr


def test_nothing_graded_is_exit_1_with_base_advantages_written(folder: Path, in_process: InProcess) -> None:
    ungraded = {"group_id": "g", "status": "ungraded", "reason": "endpoint", "candidates": []}
    (folder / "rankings.jsonl").write_text(as_lines([ungraded]))
    done = in_process("dump.jsonl", "--rankings", "rankings.jsonl", "-o", "out.jsonl")
    assert done.returncode == 1
    assert "error: groups were eligible and none was graded" in done.stderr
    assert advantages((folder / "out.jsonl").read_text()) == [0.5, 0.5, -0.5, -0.5]


def test_too_many_ungraded_groups_miss_the_gate(folder: Path, in_process: InProcess) -> None:
    (folder / "dump.jsonl").write_text(as_lines([*SEED, *({**row, "group_id": "h"} for row in SEED)]))
    arguments = ("dump.jsonl", "--rankings", "rankings.jsonl", "-o", "out.jsonl", "--overwrite")
    assert in_process(*arguments, "--max-ungraded", "0.5").returncode == 0
    done = in_process(*arguments, "--max-ungraded", "0.4")
    assert done.returncode == 4
    assert done.stderr == "error: 50.0% of the groups are ungraded, more than --max-ungraded 40.0%\n"


def test_check_is_a_gate_that_names_the_group(folder: Path, in_process: InProcess) -> None:
    arguments = ("dump.jsonl", "--rankings", "rankings.jsonl", "-o", "out.jsonl", "--overwrite", "--check")
    assert in_process(*arguments).returncode == 0
    done = in_process(*arguments, "--paper")
    assert done.returncode == 4
    assert done.stderr.startswith(
        "error: --check: an invariant is broken in 1 of 1 group\n"
        'group "g": the passing advantages\' sum moved by -0.05; 2 failing advantages changed\n'
    )
    assert advantages((folder / "out.jsonl").read_text()) == [0.775, 0.175, -0.475, -0.475]


def test_method_options_are_set_by_name(folder: Path) -> None:
    done = gagar(
        folder, "dump.jsonl", "--method", "grpo", "--like", "trl", "--set", "ddof=0", "-o", "-", "-q"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert advantages(done.stdout)[0] == pytest.approx(0.5 / 0.5001)


def test_cap_of_a_method_without_caps_is_refused(in_process: InProcess) -> None:
    done = in_process("dump.jsonl", "--method", "grpo", "--cap", "paper", "-o", "-")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --cap and --paper are not for --method grpo")


def test_summary_tells_where_process_scores_came_from(folder: Path, in_process: InProcess) -> None:
    scored = [{**each, "weighted_score": 4.0} for each in RANKING["candidates"]]
    (folder / "rankings.jsonl").write_text(as_lines([{**RANKING, "candidates": scored}]))
    done = in_process("dump.jsonl", "--rankings", "rankings.jsonl", "--method", "papo", "-o", "out.jsonl")
    assert done.returncode == 0
    assert "from the rankings, (weighted_score - 1) / 4" in done.stdout


@pytest.mark.parametrize(("flag", "names"), [("method", METHODS), ("cap", CAPS), ("like", PRESETS)])
def test_flag_offers_all_there_is(flag: str, names: Mapping[str, object]) -> None:
    offered = str(get_type_hints(redistribute)[flag])
    assert set(re.findall(r"'([^']+)'", offered)) == set(names)
