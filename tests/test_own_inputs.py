"""Outputs that would damage an input: what is refused, and that the input stands."""

import json
from pathlib import Path

import pytest

from gagar_cli.errors import UsageError
from gagar_cli.own_inputs import refuse_own_inputs

RECORDS = [{"group_id": "g", "trajectory_id": f"t{n}", "reward": float(n < 2)} for n in range(3)]


@pytest.fixture
def folder(tmp_path) -> Path:
    path = tmp_path / "rollouts"
    path.mkdir()
    (path / "part-0.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return path


@pytest.mark.parametrize(
    ("output", "inputs", "message"),
    [
        ("rollouts/part-0.jsonl", ["rollouts/part-0.jsonl"], "part-0.jsonl, which is read"),
        ("rollouts/../rollouts/part-0.jsonl", ["-", "rollouts/part-0.jsonl"], "which is read"),
        ("link.jsonl", ["rollouts/part-0.jsonl"], "which is read"),
        ("rollouts", ["rollouts"], "which is read"),
        ("rollouts/r.jsonl", ["rollouts"], "the next run would take it for a shard"),
        ("empty/r.jsonl", ["empty"], "the next run would take it for a shard"),
    ],
)
def test_an_output_that_is_read_is_refused(folder, monkeypatch, output, inputs, message):
    monkeypatch.chdir(folder.parent)
    Path("empty").mkdir()
    Path("link.jsonl").symlink_to(folder / "part-0.jsonl")
    with pytest.raises(UsageError, match=message):
        refuse_own_inputs(output, inputs)


@pytest.mark.parametrize(
    ("output", "inputs"),
    [
        ("-", ["-"]),
        ("r.jsonl", ["rollouts", "absent.jsonl", "s3://bucket/rollouts"]),
        ("rollouts/card", ["rollouts"]),
        ("rollouts/part-1.jsonl", ["rollouts/part-0.jsonl"]),
        ("native/r.jsonl", ["native"]),
    ],
)
def test_other_outputs_are_not(folder, monkeypatch, output, inputs):
    monkeypatch.chdir(folder.parent)
    Path("native").mkdir()
    Path("native/one.traj").touch()
    Path("native/r.jsonl.run.json").touch()
    refuse_own_inputs(output, inputs)


@pytest.mark.parametrize("flags", [[], ["--overwrite"]], ids=["plain", "overwrite"])
@pytest.mark.parametrize(
    "command",
    [
        ["grade", "{dump}", "-o", "{dump}", "--model", "offline"],
        ["grade", "{other}", "--join", "{dump}", "-o", "{dump}", "--model", "offline"],
        ["grade", "{folder}", "-o", "{folder}/r.jsonl", "--model", "offline"],
        ["grade", "{folder}", "-o", "{folder}/r.jsonl", "--model", "offline", "--follow"],
        ["audit", "{folder}", "-o", "{folder}", "--judge-model", "offline"],
        ["calibrate", "{folder}", "-o", "{folder}", "--model", "offline"],
        ["redistribute", "{dump}", "--method", "grpo", "-o", "{dump}"],
        ["redistribute", "{dump}", "--method", "grpo", "-o", "{dump}", "--full-copy"],
        ["redistribute", "{other}", "--rankings", "{dump}", "-o", "{dump}"],
        ["redistribute", "{other}", "--join", "{dump}", "--method", "grpo", "-o", "{dump}"],
        ["redistribute", "{folder}", "--method", "grpo", "-o", "{folder}/advantages.parquet"],
        ["convert", "{dump}", "-o", "{dump}"],
        ["convert", "{other}", "--join", "{dump}", "-o", "{dump}"],
        ["convert", "{folder}", "-o", "{folder}/all.jsonl.zst"],
        ["report", "{dump}", "-o", "{dump}"],
        ["report", "{other}", "--advantages", "{dump}", "-o", "{dump}"],
    ],
    ids=[
        "dump", "join", "shard", "followed", "audit", "calibrate", "advantages", "full copy", "rankings",
        "advantages over a join", "advantages as a shard", "convert", "convert over a join", "convert to a shard",
        "report", "report over advantages",
    ],
)  # fmt: skip
def test_no_command_writes_over_what_it_reads(folder, gagar, command, flags):
    dump = folder / "part-0.jsonl"
    before = dump.read_bytes()
    other = folder.parent / "other.jsonl"
    other.write_bytes(before)
    arguments = [part.format(dump=dump, folder=folder, other=other) for part in command]
    done = gagar(*arguments, *flags)
    assert (done.returncode, dump.read_bytes()) == (2, before)
    assert done.stderr.startswith("error: -o is ")
    assert [path.name for path in folder.iterdir()] == ["part-0.jsonl"]


@pytest.mark.parametrize("flags", [[], ["--overwrite"]], ids=["plain", "overwrite"])
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("rankings.jsonl", ["calibrate", "{own}", "-o", "{output}", "--model", "offline"]),
        ("rankings-2.jsonl", ["calibrate", "{own}", "-o", "{output}", "--model", "offline", "--model", "offline"]),
        ("card.json", ["calibrate", "{dump}", "--join", "{own}", "-o", "{output}", "--model", "offline"]),
        ("judgments.jsonl", ["audit", "{own}", "-o", "{output}", "--judge-model", "offline"]),
    ],
)  # fmt: skip
def test_a_file_of_the_directory_that_is_read_is_not_written_over(folder, gagar, name, command, flags):
    output = folder.parent / "output"
    output.mkdir()
    before = (folder / "part-0.jsonl").read_bytes()
    (output / name).write_bytes(before)
    own = {"own": output / name, "dump": folder / "part-0.jsonl", "output": output}
    done = gagar(*[part.format(**own) for part in command], *flags)
    assert (done.returncode, (output / name).read_bytes()) == (2, before)
    assert done.stderr.startswith(f"error: -o is {output}, and {output / name} in it is read")


def test_other_files_of_the_directory_may_be_read(folder, gagar):
    output = folder.parent / "output"
    output.mkdir()
    (output / "rollouts.jsonl").write_bytes((folder / "part-0.jsonl").read_bytes())
    done = gagar("calibrate", output / "verdicts.jsonl", "-o", output, "--model", "offline")
    assert done.stderr.startswith(f"error: {output}/verdicts.jsonl: no such file")


def test_a_correction_of_a_dump_leaves_it_as_it_is(folder, gagar):
    dump = folder / "part-0.jsonl"
    for text in (dump.read_bytes(), dump.read_bytes()[:-1]):
        dump.write_bytes(text)
        done = gagar("override", dump, "g", "t0", "--tier", "T1", "--reason", "r", "--author", "a")
        assert (done.returncode, dump.read_bytes()) == (3, text)
    assert [path.name for path in folder.iterdir()] == ["part-0.jsonl"]


def test_a_plot_and_pages_for_a_pipeline_do_not_replace_what_is_read(folder, gagar):
    dump = folder.parent / "rollouts.svg"
    dump.write_bytes((folder / "part-0.jsonl").read_bytes())
    before = dump.read_bytes()
    swept = gagar("sweep", dump, "--rankings", folder / "part-0.jsonl", "--plot", dump, "--overwrite")
    assert swept.stderr.startswith(f"error: --plot is {dump}, which is read")
    audited = gagar("audit", dump, "--judge-model", "offline", "-o", folder.parent / "o", "--markdown", dump)
    assert audited.stderr.startswith(f"error: --markdown is {dump}, which is read")
    assert dump.read_bytes() == before
