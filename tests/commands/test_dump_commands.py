"""`gagar formats`, `head`, `validate` and `convert`, and `--join` in the commands that grade and redistribute."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gagar_cli.cli import run
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.formats import FORMATS

PATCH = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n-x\n+y\n+print('debug')\n"


def write(path: Path, records: list[Any]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return str(path)


@pytest.fixture
def canonical(tmp_path: Path) -> str:
    log = [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": [{"type": "image"}], "cost": 0.5},
    ]
    return write(
        tmp_path / "dump.jsonl",
        [
            {
                "group_id": "g",
                "trajectory_id": "a",
                "reward": 1.0,
                "messages": log,
                "model_patch": PATCH,
                "mood": {"deep": [1]},
            },
            {"group_id": "g", "trajectory_id": "b", "reward": 0, "model_patch": "", "step": None},
            {"group_id": "h", "reward": None, "rewards": {"tests": 1}},
        ],
    )


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs of one task by SWE-agent, two of which pass, each with a report."""
    for number, passed in ((1, True), (2, True), (3, False)):
        folder = tmp_path / "runs" / f"run-{number}"
        log = [
            {"role": "user", "content": "fix", "agent": "main"},
            {"role": "assistant", "content": "done", "agent": "main"},
        ]
        info = {"exit_status": "submitted", "submission": PATCH.replace("y", "y" * number)}
        folder.mkdir(parents=True)
        (folder / "a__b-1.traj").write_text(
            json.dumps({"trajectory": [], "history": log, "info": info}, indent=1)
        )
        (folder / "report.json").write_text(
            json.dumps({"resolved_ids": ["a__b-1"] * passed, "completed_ids": ["a__b-1"]})
        )
    return tmp_path / "runs"


def test_formats_lists_every_format_and_shows_how_one_maps(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["formats"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in ("canonical", "verl", "swe-agent", "harbor", "pickle"))
    assert run(["formats", "nemo-gym", "--json"]) == 0
    assert (
        json.loads(capsys.readouterr().out)["formats"]["nemo-gym"]["mapping"]["mask_sample"] == "mask_sample"
    )
    assert run(["formats", "nope"]) == 2
    assert "one of canonical, " in capsys.readouterr().err
    assert run(["formats", "skyrl"]) == 2
    assert "the nearest is skyrl-eval" in capsys.readouterr().err


def test_the_documentation_names_every_format() -> None:
    page = (Path(__file__).parents[2] / "docs" / "dumps.md").read_text()
    assert [name for name in FORMATS if f"`{name}`" not in page] == []


def test_head_in_a_pipe_is_one_json_object(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["head", str(runs), "-n", "1"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["files"][0]["format"] == "swe-agent"
    assert shown["files"][0]["why"] == "trajectory, history and info: SWE-agent up to 0.7"
    assert (shown["n_groups"], shown["n_groups_by_size"], len(shown["records"])) == (1, {"3": 1}, 1)
    assert shown["n_invalid_by_reason"] == {"not_evaluated": 3}


def test_head_of_a_canonical_dump_says_so(canonical: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["head", canonical]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [each["format"] for each in shown["files"]] == ["canonical"]
    assert shown["columns"]["mood"] == "object of 1"


def test_validate_tells_all_problems_and_counts_them_by_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"group_id": "g", "reward": 1.0}
    records = [
        good,
        *({"group_id": "g", "reward": f"high {n}"} for n in range(25)),
        good | {"messages": 5},
        {"group_id": ""},
    ]
    path = write(tmp_path / "dump.jsonl", records)
    assert run(["validate", path, "--json"]) == 3
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["n_problems_by_kind"] == {
        "reward is …, expected a number": 25,
        "neither reward nor resolved": 1,
        "messages is …, expected a list of messages": 1,
    }
    assert (found["n_problems"], len(found["problems"])) == (27, 20)
    assert f"{path}:2: reward is" in err
    assert "… and 7 more" in err


def test_validate_of_a_sound_dump_is_quiet_and_zero(
    canonical: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", canonical]) == 0
    assert "problems" in capsys.readouterr().out


def test_validate_tells_what_keeps_a_dump_from_being_read_at_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", write(tmp_path / "empty.jsonl", [])]) == 3
    assert "no records" in capsys.readouterr().err


def test_a_round_trip_through_parquet_gives_equal_records(canonical: str, tmp_path: Path) -> None:
    first, table, second = (str(tmp_path / name) for name in ("1.jsonl", "2.parquet", "3.jsonl"))
    assert run(["convert", canonical, "-o", first]) == 0
    assert run(["convert", first, "-o", table]) == 0
    assert run(["convert", table, "-o", second]) == 0
    assert Path(first).read_text() == Path(second).read_text()
    a, b, c = (json.loads(line) for line in Path(first).read_text().splitlines())
    assert json.loads(a["raw"]) == {"mood": {"deep": [1]}}
    assert json.loads(a["messages"][1]["extra"]) == {"content": [{"type": "image"}], "cost": 0.5}
    assert (b["reward"], b["model_patch"], c["reward"]) == (0.0, "", None)
    assert "resolved" not in a
    assert pq.read_metadata(table).row_group(0).column(0).compression == "ZSTD"


def test_a_converted_native_dump_keeps_what_has_no_field(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert run(["convert", str(runs), "-o", str(out)]) == 0
    record = json.loads(out.read_text().splitlines()[0])
    assert record["source_format"] == "swe-agent-0"
    assert json.loads(record["messages"][0]["extra"]) == {"agent": "main"}
    assert record["resolved"] is None
    assert json.loads(record["raw"]) == {"trajectory": []}


def test_a_converted_boolean_reward_is_a_number(tmp_path: Path) -> None:
    rows = [{"group_id": "g", "trajectory_id": str(n), "reward": n == 1} for n in range(2)]
    path = write(tmp_path / "flags.jsonl", rows)
    for name in ("out.jsonl", "out.parquet"):
        assert run(["convert", path, "-o", str(tmp_path / name)]) == 0
        with open_dump([str(tmp_path / name)], ReadOptions()) as dump:
            assert dump.index.select("reward", "passed").rows() == [(0.0, False), (1.0, True)]


def test_convert_never_overwrites_and_knows_its_suffixes(canonical: str, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("mine")
    assert run(["convert", canonical, "-o", str(out)]) != 0
    assert out.read_text() == "mine"
    assert run(["convert", canonical, "-o", str(tmp_path / "out.csv")]) == 2


def test_joined_runs_are_graded_and_redistributed_without_another_flag(runs: Path, tmp_path: Path) -> None:
    rankings, advantages = str(tmp_path / "r.jsonl"), str(tmp_path / "a.jsonl")
    joins = ["--join", str(runs)]
    assert run(["grade", str(runs), *joins, "-o", rankings, "--model", "offline", "-q"]) == 0
    (ranking,) = (
        json.loads(line) for line in Path(rankings).read_text().splitlines() if "candidates" in line
    )
    assert ranking["status"] == "graded"
    assert sorted(each["trajectory_id"] for each in ranking["candidates"]) == ["run-1/a__b-1", "run-2/a__b-1"]
    assert run(["redistribute", str(runs), *joins, "--rankings", rankings, "-o", advantages, "-q"]) == 0
    rows = [json.loads(line) for line in Path(advantages).read_text().splitlines()]
    assert sum(row["advantage"] for row in rows) == pytest.approx(0)
    assert {row["trajectory_id"]: row["reward_effective"] for row in rows} == {
        "run-1/a__b-1": 1.0, "run-2/a__b-1": 1.0, "run-3/a__b-1": 0.0,
    }  # fmt: skip


def test_what_was_converted_is_read_like_the_native_dump(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = str(tmp_path / "out.parquet")
    assert run(["convert", str(runs), "--join", str(runs), "-o", table, "-q", "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert (written["n_records"], written["n_groups"], written["n_passed"], written["n_invalid"]) == (
        3,
        1,
        2,
        0,
    )
    assert run(["head", table, "-q"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["n_records"], shown["n_groups"], shown["n_passed"], shown["n_invalid"]) == (3, 1, 2, 0)


def test_a_full_copy_of_a_converted_dump_keeps_what_has_no_field(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    converted, out = tmp_path / "converted.jsonl", tmp_path / "full.jsonl"
    flags = ["--method", "dr-grpo", "--full-copy", "-q", "-o", str(out)]
    assert run(["redistribute", str(runs), "--join", str(runs), *flags]) == 2
    assert "or copy what `gagar convert` makes of it" in capsys.readouterr().err
    assert run(["convert", str(runs), "--join", str(runs), "-o", str(converted), "-q"]) == 0
    assert run(["redistribute", str(converted), *flags]) == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [record["resolved"] for record in records] == [True, True, False]
    assert [record["advantage"] for record in records] == pytest.approx([1 / 3, 1 / 3, -2 / 3])
    assert all(json.loads(record["raw"]) == {"trajectory": []} for record in records)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_canonical_dump_is_grouped_by_prompt_or_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    def attempt(prompt: str, reply: str) -> dict[str, Any]:
        log = [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply}]
        return {"trajectory_id": f"{prompt}-{reply}", "reward": 1.0, "messages": log}

    records = [attempt("p", "1"), attempt("q", "2"), attempt("p", "3")]
    path = str(tmp_path / f"dump.{suffix}")
    if suffix == "jsonl":
        write(Path(path), records)
    else:
        pq.write_table(pa.Table.from_pylist(records), path)
    assert run(["head", path, "--group-by", "prompt", "-q"]) == 0
    by_prompt = json.loads(capsys.readouterr().out)
    assert (by_prompt["n_groups_by_size"], by_prompt["group_id_source"]) == ({"1": 1, "2": 1}, "equal_prompt")
    assert run(["head", path, "--group-by", "directory", "-q"]) == 0
    by_directory = json.loads(capsys.readouterr().out)
    assert (by_directory["n_groups_by_size"], by_directory["group_id_source"]) == ({"3": 1}, "directory")


def test_native_rows_are_recognised_in_a_pipe_and_in_compressed_files(tmp_path: Path) -> None:
    row = {"input": "p", "output": "o", "gts": None, "score": 1.0, "step": 3}
    data = (json.dumps(row) + "\n").encode() * 2
    (tmp_path / "3.jsonl.gz").write_bytes(gzip.compress(data))
    command = [sys.executable, "-m", "gagar_cli", "head"]
    piped = subprocess.run([*command, "-"], input=data, capture_output=True)
    compressed = subprocess.run([*command, str(tmp_path / "3.jsonl.gz")], capture_output=True)
    for done in (piped, compressed):
        shown = json.loads(done.stdout)
        assert (shown["files"][0]["format"], shown["n_records"], shown["n_groups"]) == ("verl", 2, 1)


def test_files_of_no_known_form_in_a_tree_are_named(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(runs / "extra.jsonl", [{"what": 1}])
    assert run(["head", str(runs)]) == 0
    assert "1 of its files is of no native format and not read" in capsys.readouterr().err


def test_converting_with_mapped_fields_keeps_what_had_their_names(tmp_path: Path) -> None:
    record = {
        "group_id": "g",
        "trajectory_id": "t",
        "reward": "a word",
        "outcome": {"reward": 1.0, "why": "x"},
        "passed": True,
    }
    path, out = write(tmp_path / "dump.jsonl", [record]), tmp_path / "out.jsonl"
    assert run(["convert", path, "-o", str(out), "--field", "reward=outcome.reward"]) == 0
    made = json.loads(out.read_text())
    assert (made["reward"], made["resolved"]) == (1.0, True)
    assert json.loads(made["raw"]) == {"outcome": {"reward": 1.0, "why": "x"}, "reward": "a word"}


def test_a_value_of_another_type_than_its_field_is_kept_as_it_was(tmp_path: Path) -> None:
    record = {
        "group_id": "g",
        "trajectory_id": "t",
        "reward": 1,
        "advantage": [0.5, 0.5],
        "tools": [{"name": "ls"}],
        "version": 2.5,
    }
    path, out = write(tmp_path / "dump.jsonl", [record]), tmp_path / "out.parquet"
    assert run(["convert", path, "-o", str(out)]) == 0
    (row,) = pq.read_table(out).to_pylist()
    assert json.loads(row["raw"]) == {"advantage": [0.5, 0.5], "tools": [{"name": "ls"}], "version": 2.5}
    assert (row["reward"], row["advantage"], row["schema_version"]) == (1.0, None, 1)


def test_validate_tells_what_is_wrong_where_every_record_is_bad(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "d.jsonl", [{"group_id": "g", "reward": "1"}, {"group_id": "", "reward": 1}])
    assert run(["validate", path, "--json"]) == 3
    told = capsys.readouterr()
    assert json.loads(told.out)["n_problems"] == 2
    assert f'{path}:1: reward is "1", expected a number' in told.err
    assert f"{path}:2: group_id is" in told.err


@pytest.mark.parametrize(
    "command",
    [
        ("redistribute", "--method", "dr-grpo", "-o", "OUT"),
        ("redistribute", "--method", "dr-grpo", "-o", "OUT", "--json"),
        ("stats",),
        ("head",),
        ("convert", "-o", "OUT"),
        ("grade", "--model", "offline", "--sandbox", "inspect-only", "-o", "OUT"),
        ("grade", "--model", "offline", "--sandbox", "inspect-only", "-o", "OUT", "--follow", "--group-size", "3", "--idle-seconds", "0.1"),
        ("sweep", "--rankings", "RANKED", "--weights", "0"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_records_that_were_left_out_are_counted_and_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    fair = [
        {"group_id": "g", "trajectory_id": name, "resolved": name != "c", "model_patch": PATCH}
        for name in "abc"
    ]
    dump = write(tmp_path / "dump.jsonl", [*fair, *["x"] * 22])
    ranked = [{"trajectory_id": name, "tier": tier, "rank": 1} for name, tier in (("a", "T1"), ("b", "T2"))]
    places = {
        "OUT": str(tmp_path / "out.jsonl"),
        "RANKED": write(tmp_path / "ranked.jsonl", [{"group_id": "g", "candidates": ranked}]),
    }
    name, *flags = (places.get(word, word) for word in command)
    assert run([name, dump, *flags, "--on-bad-record", "skip"]) == 0
    _, found, note = capsys.readouterr().err.partition("note: 22 bad records were left out:\n")
    assert found
    listed = note.splitlines()[:21]
    assert [line.startswith(f"  {dump}:{number}:") for number, line in enumerate(listed[:20], 4)] == [
        True
    ] * 20
    assert listed[20] == "  … and 2 more"


def test_validate_tells_bad_records_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attempt = {"group_id": "g", "trajectory_id": "a", "reward": 1, "model_patch": "+1"}
    dump = write(tmp_path / "dump.jsonl", [attempt, "x"])
    run(["validate", dump, "--json"])
    told = capsys.readouterr()
    assert "left out" not in told.err
    assert json.loads(told.out)["n_problems"] == 1
    assert json.loads(told.out)["notes"] == []
