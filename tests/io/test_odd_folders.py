"""Folders as they lie on real disks: broken files among good ones, links, odd names and ids, several formats at once."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from tests.io.test_following_native import mini, nemo, rllm, verl


@pytest.fixture
def put(tmp_path: Path):
    def write(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = "".join(json.dumps(each) + "\n" for each in content).encode()
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    return write


def ids(dump: Dump) -> list[str]:
    with dump:
        return dump.index["trajectory_id"].to_list()


def read(*paths: Path, **options: Any) -> Dump:
    return open_dump([str(path) for path in paths], ReadOptions(**options))


@pytest.mark.parametrize("name", ["run/b/b.traj.json", "run/b/b.traj"])
@pytest.mark.parametrize("content", [b'{"trajectory_format": "mini', b"{}}", b"\xff\xfe", b"not JSON"])
def test_an_attempt_that_broke_is_a_bad_record_and_not_left_out(
    put: Any, tmp_path: Path, name: str, content: bytes
) -> None:
    put("run/a/a.traj.json", mini("a"))
    put(name, content)
    with pytest.raises(InputError, match=f"{Path(name).name}:") as caught:
        read(tmp_path / "run")
    assert caught.value.hint is not None
    dump = read(tmp_path / "run", on_bad_record="skip")
    assert dump.report.n_bad_records == 1
    assert ids(dump) == ["run/a"]


def test_a_broken_file_beside_its_like_is_a_bad_record_too(put: Any, tmp_path: Path) -> None:
    put("episodes/episode_1.json", rllm("g", 0, correct=True))
    put("episodes/episode_2.json", json.dumps(rllm("g", 1, correct=True)).encode()[:-9])
    with pytest.raises(InputError, match=r"episode_2\.json:1:"):
        read(tmp_path / "episodes")
    put("rollouts/1.jsonl", [verl(1, "a", 0)])
    put("rollouts/2.jsonl", b"garbage\n" + json.dumps(verl(2, "a", 0)).encode())
    with pytest.raises(InputError, match=r"2\.jsonl:1:1: invalid JSON"):
        read(tmp_path / "rollouts")
    dump = read(tmp_path / "rollouts", on_bad_record="skip")
    assert dump.report.n_bad_records == 1
    assert ids(dump) == ["rollouts/1/1", "rollouts/2/2"]


def test_a_pointer_in_the_place_of_a_file_of_rollouts_is_named(put: Any, tmp_path: Path) -> None:
    put("rollouts/1.jsonl", [verl(1, "a", 0)])
    put("rollouts/2.jsonl", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n")
    with pytest.raises(InputError, match=r"2\.jsonl: a pointer of Git LFS"):
        read(tmp_path / "rollouts")
    dump = read(tmp_path / "rollouts", on_bad_record="skip")
    assert dump.report.n_bad_records == 1
    assert ids(dump) == ["rollouts/1/1"]


def test_any_other_file_that_cannot_be_read_is_told(put: Any, tmp_path: Path) -> None:
    put("run/a/a.traj.json", mini("a"))
    put("run/settings.json", b"{broken")
    dump = read(tmp_path / "run")
    assert any(
        "1 of its files cannot be read and is left out" in note and "settings.json" in note
        for note in dump.report.notes
    )
    assert ids(dump) == ["run/a"]


def test_a_folder_with_broken_attempts_only_says_what_is_wrong_with_the_first(
    put: Any, tmp_path: Path
) -> None:
    put("run/a/a.traj.json", b'{"info": {')
    with pytest.raises(InputError, match=r"a\.traj\.json:1:"):
        read(tmp_path / "run")


def test_a_file_that_comes_twice_is_read_once_and_that_is_told(put: Any, tmp_path: Path) -> None:
    first = put("rollouts/1.jsonl", [verl(1, "a", 0), verl(1, "a", 1, 0.0)])
    (tmp_path / "rollouts" / "latest.jsonl").symlink_to("1.jsonl")
    os.link(first, tmp_path / "rollouts" / "copy.jsonl")
    dump = read(first, tmp_path / "rollouts")
    [note] = [note for note in dump.report.notes if "the same file as" in note]
    assert note.endswith("rollouts/1.jsonl, read once (and 2 more notes of this kind)")
    assert ids(dump) == ["rollouts/1/1", "rollouts/1/2"]
    canonical = put("c.jsonl", [{"group_id": "g", "trajectory_id": "t", "reward": 1.0}])
    assert ids(read(canonical, canonical)) == ["t"]


def test_links_in_a_circle_end(put: Any, tmp_path: Path) -> None:
    put("rollouts/1.jsonl", [verl(1, "a", 0)])
    (tmp_path / "rollouts" / "again").symlink_to(tmp_path / "rollouts")
    os.mkfifo(tmp_path / "rollouts" / "2.jsonl")
    (tmp_path / "rollouts" / "3.jsonl").mkdir()
    assert ids(read(tmp_path / "rollouts")) == ["rollouts/1/1"]


def test_names_that_are_no_utf8_are_read_and_told_apart(tmp_path: Path) -> None:
    folder = os.path.join(os.fsencode(tmp_path), b"runs")  # noqa: PTH118 - a Path is text
    for name in (b"r\xff", b"r\xfe"):
        os.makedirs(os.path.join(folder, name))  # noqa: PTH103, PTH118
        with open(os.path.join(folder, name, b"i.traj.json"), "wb") as stream:  # noqa: PTH118, PTH123
            stream.write(json.dumps(mini("i")).encode())
    dump = read(tmp_path / "runs")
    records = list(dump.iter_records())
    assert ids(dump) == [r"r\xfe/i", r"r\xff/i"]
    assert str(records[0]["source_path"]).endswith(r"runs/r\xfe/i.traj.json")


def test_a_byte_order_mark_before_a_document_is_read_over(put: Any, tmp_path: Path) -> None:
    put("run/i.traj.json", b"\xef\xbb\xbf" + json.dumps(mini("i"), indent=1).encode())
    assert ids(read(tmp_path / "run")) == ["run/i"]


def test_formats_beside_each_other_are_each_read(put: Any, tmp_path: Path) -> None:
    put("all/1.jsonl", [verl(1, "a", 0)])
    put("all/r.jsonl", [nemo(0, 0, 1.0)])
    put("all/run/i/i.traj.json", mini("i"))
    put("all/deep/" + "d/" * 40 + "2.jsonl", [verl(2, "a", 0)])
    dump = read(tmp_path / "all")
    assert sorted({form for form, _ in dump.forms}) == ["mini-swe-agent", "nemo-gym", "verl"]
    dump.close()
    put("mixed.jsonl", [verl(1, "a", 0), nemo(0, 0, 1.0)])
    with pytest.raises(InputError, match=r"mixed\.jsonl:2: output and score are missing"):
        read(tmp_path / "mixed.jsonl")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("i.traj.json", mini("i") | {"instance_id": {"a": 1}}, 'instance_id is {"a": 1}'),
        ("p.jsonl", [{"instance_id": None, "model_patch": "p", "model_name_or_path": "m"}], "instance_id is null"),
        ("p.jsonl", [{"instance_id": ["a"], "model_patch": "p", "model_name_or_path": "m"}], r'instance_id is \["a"\]'),
        ("p.jsonl", [{"instance_id": "", "model_patch": "p", "model_name_or_path": "m"}], 'instance_id is ""'),
        ("t.jsonl", [{"instance_id": ["a"], "messages": [], "traj_id": "t", "resolved": True}], r'instance_id is \["a"\]'),
        ("o.jsonl", [{"instance_id": 1.5, "test_result": {}, "history": []}], "instance_id is 1.5"),
        ("results.json", {"task_id": None, "is_resolved": True, "failure_mode": "none"}, "task_id is null"),
        ("e.json", rllm("g", 0, correct=True) | {"trajectories": {"a": 1}}, 'trajectories is {"a": 1}'),
        ("e.json", rllm("g", 0, correct=True) | {"trajectories": [None]}, r"trajectories is \[null\]"),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)  # fmt: skip
def test_an_id_that_names_nothing_is_refused_and_not_made_up(
    put: Any, name: str, content: Any, message: str
) -> None:
    with pytest.raises(InputError, match=rf"{name}:1: {message}, expected"):
        read(put(name, content))


def test_an_id_that_is_a_number_is_its_text(put: Any) -> None:
    assert ids(read(put("run/i.traj.json", mini("i") | {"instance_id": 5}))) == ["run/5"]
    assert ids(read(put("run/j.traj.json", mini("i") | {"instance_id": ""}))) == ["run/j"]


def harbor_trial(folder: Path) -> None:
    (folder / "verifier").mkdir(parents=True)
    (folder / "agent").mkdir()
    trial = {
        "task_name": "t", "trial_name": folder.name, "task_checksum": "x", "verifier_result": {"rewards": {"reward": 1.0}},
    }  # fmt: skip
    (folder / "result.json").write_text(json.dumps(trial))


def test_a_log_that_a_link_brings_from_elsewhere_is_not_read(tmp_path: Path) -> None:
    """A dump may be a stranger's: its links could point at any file here, and test outputs go to the judge."""
    (tmp_path / "secret").write_text("a key of this machine")
    trial = tmp_path / "job" / "t__a"
    harbor_trial(trial)
    (trial / "verifier" / "test-stdout.txt").symlink_to(tmp_path / "secret")
    (trial / "agent" / "trajectory.json").symlink_to(tmp_path / "secret")
    with read(trial / "result.json") as dump:
        assert dump.read_trajectories([0])[0][1].test_output is None
        assert dump.report.n_bad_records == 0


def test_a_log_that_a_link_brings_from_within_the_job_is_read(tmp_path: Path) -> None:
    trial = tmp_path / "job" / "t__a"
    harbor_trial(trial)
    (tmp_path / "job" / "shared.txt").write_text("1 passed")
    (trial / "verifier" / "test-stdout.txt").symlink_to(tmp_path / "job" / "shared.txt")
    with read(trial / "result.json") as dump:
        assert dump.read_trajectories([0])[0][1].test_output == "1 passed"


@pytest.mark.parametrize("link", ["preds.json", "trajs"])
def test_predictions_that_a_link_brings_from_elsewhere_are_no_patches(
    put: Any, tmp_path: Path, link: str
) -> None:
    put("run/i/i.traj.json", mini("i") | {"info": {"exit_status": "Submitted"}})
    put(
        "out/preds.json",
        {"i": {"instance_id": "i", "model_patch": "of this machine", "model_name_or_path": "m"}},
    )
    (tmp_path / "run" / link).symlink_to(tmp_path / "out" / ("preds.json" if link == "preds.json" else ""))
    with read(tmp_path / "run") as dump:
        assert dump.read_trajectories([0])[0][1].model_patch is None
        assert any("a link that leads out of the run: not used" in note for note in dump.report.notes) is (
            link == "preds.json"
        )


def test_a_trajectory_that_a_link_brings_is_no_attempt_beside_its_trial(tmp_path: Path) -> None:
    trial = tmp_path / "job" / "t__a"
    harbor_trial(trial)
    (tmp_path / "t.json").write_text(json.dumps({"schema_version": "ATIF-v1.2", "steps": []}))
    (trial / "agent" / "trajectory.json").symlink_to(tmp_path / "t.json")
    with read(tmp_path / "job") as dump:
        assert dump.n_rows == 1


def test_files_that_links_bring_into_a_folder_are_told(put: Any, tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    for n in range(2):
        put(f"blobs/{n}", [{"group_id": f"g{n}", "trajectory_id": "t", "reward": 1.0}])
        (tmp_path / "shards" / f"{n}.jsonl").symlink_to(tmp_path / "blobs" / str(n))
    with read(tmp_path / "shards") as dump:
        assert dump.n_rows == 2
        [note] = [note for note in dump.report.notes if "links" in note]
    shards = f"{tmp_path}/shards"
    told = f"{shards}: 2 of its files are links that lead out of it, and read: {shards}/0.jsonl, {shards}/1.jsonl"
    assert note == told
    with read(tmp_path / "shards" / "0.jsonl") as dump:
        assert dump.report.notes == ()
