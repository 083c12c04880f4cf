"""Native files that grow: whatever the order in which their lines and files come, the whole dump's attempts result."""

import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gagar_cli.core.conditions import parse_condition
from gagar_cli.core.schema import GroupKey
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.following import FollowedDump

PATCH = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n"


def verl(step: int, prompt: str, n: int, score: float = 1.0, **more: Any) -> dict[str, Any]:
    text = f"user\n{prompt}\nassistant\n"
    return {"input": text, "output": f"answer {n}", "gts": None, "score": score, "step": step, **more}


def skyrl(prompt: str, n: int, score: float) -> dict[str, Any]:
    return {
        "input_prompt": prompt,
        "output_response": f"answer {n}",
        "env_class": "e",
        "score": score,
        "stop_reason": "stop",
        "env_extras": {"instance_id": prompt},
    }


def trace(group: str, n: int, reward: float) -> dict[str, Any]:
    nodes = [
        {"message": {"role": "user", "content": "q"}, "parent": None},
        {"message": {"role": "assistant", "content": f"a{n}"}, "parent": 0, "sampled": True},
        {"message": {"role": "assistant", "content": f"b{n}"}, "parent": 0, "sampled": True},
    ]
    episode = {"id": f"{group}-{n}", "nodes": nodes, "calls": [], "rewards": {"r": reward}, "ok": True}
    return {"env": "e", "task": {"key": group}, "group": {"id": group}, "traces": [episode]}


def rllm(group: str, n: int, *, correct: bool) -> dict[str, Any]:
    steps = [
        {"chat_completions": [{"role": "user", "content": "q"}, {"role": "assistant", "content": str(n)}]}
    ]
    return {
        "episode_id": f"{group}:{n}",
        "task_hash": group,
        "is_correct": correct,
        "trajectories": [{"steps": steps, "reward": float(correct)}],
    }


def nemo(task: int, n: int, reward: float) -> dict[str, Any]:
    asked = {"input": [{"role": "user", "content": f"q{task}"}]}
    told = {
        "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}
        ]
    }
    return {
        "_ng_task_index": task,
        "_ng_rollout_index": n,
        "responses_create_params": asked,
        "response": told,
        "reward": reward,
    }


def verifiers(example: int, reward: float) -> dict[str, Any]:
    completion = [{"role": "assistant", "content": "a"}]
    return {"example_id": example, "prompt": [], "completion": completion, "reward": reward, "timing": {}}


def trl(step: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "step": [step] * 4,
            "prompt": ["p", "p", "q", "q"],
            "completion": ["a", "b", "c", "d"],
            "advantage": [0.5, -0.5, 0.0, 0.0],
            "correctness": [1.0, 0.0, 1.0, 1.0],
        }
    )


def mini(instance: str) -> dict[str, Any]:
    return {
        "trajectory_format": "mini-swe-agent-1",
        "info": {"exit_status": "Submitted", "submission": PATCH},
        "messages": [{"role": "user", "content": "fix"}, {"role": "assistant", "content": instance}],
        "instance_id": instance,
    }


LAYOUTS: dict[str, Mapping[str, Any]] = {
    "verl": {
        "rollouts/9.jsonl": [verl(9, "a", 0), verl(9, "a", 1, 0.0), verl(9, "b", 2)],
        "rollouts/10.jsonl": [verl(10, "a", 0), verl(10, "a", 1, 0.0)],
    },
    "verl with uids": {
        "rollouts/1.jsonl": [
            verl(1, "a", 0, uid="u_0_0"),
            verl(1, "a", 1, uid="u_0_1"),
            verl(1, "a", 2, uid="u_1_0"),
        ]
    },
    "skyrl": {
        "dumped/global_step_5_evals/data.jsonl": [skyrl("a", 0, 1.0), skyrl("a", 1, 0.0)],
        "dumped/global_step_10_evals/data.jsonl": [skyrl("a", 0, 1.0), skyrl("b", 1, 0.0)],
    },
    "prime-rl": {
        "rollouts/step_1/train/all/traces.jsonl": [trace("g", 0, 1.0), trace("g", 1, 0.0)],
        "rollouts/step_2/train/all/traces.jsonl": [trace("h", 0, 1.0), trace("h", 1, 0.0)],
    },
    "verifiers": {
        "outputs/one/results.jsonl": [verifiers(0, 1.0), verifiers(0, 0.0)],
        "outputs/two/results.jsonl": [verifiers(0, 1.0), verifiers(1, 0.0)],
    },
    "rllm": {
        "log/a.jsonl": [rllm("g", 0, correct=True), rllm("g", 1, correct=False)],
        "log/b.jsonl": [rllm("h", 0, correct=True)],
    },
    "rllm, an episode a file": {
        "log/g_0.json": rllm("g", 0, correct=True),
        "log/g_1.json": rllm("g", 1, correct=False),
        "log/h_0.json": rllm("h", 0, correct=True),
    },
    "nemo-gym": {"runs/rollouts.jsonl": [nemo(0, 0, 1.0), nemo(0, 1, 0.0), nemo(1, 0, 1.0)]},
    "trl": {
        "completions/completions_00001.parquet": trl(1),
        "completions/completions_00002.parquet": trl(2),
    },
    "mini-swe-agent": {
        "runs/one/a__a-1/a__a-1.traj.json": mini("a__a-1"),
        "runs/one/a__a-2/a__a-2.traj.json": mini("a__a-2"),
        "runs/two/a__a-1/a__a-1.traj.json": mini("a__a-1"),
        "runs/two/preds.json": {
            "a__a-1": {"instance_id": "a__a-1", "model_patch": "", "model_name_or_path": "m"}
        },
    },
    "runs of one name": {
        "x/1/run/1.jsonl": [verl(1, "a", 0), verl(1, "a", 1, 0.0)],
        "x/2/run/1.jsonl": [verl(1, "a", 2), verl(1, "a", 3, 0.0)],
    },
    "packed lines": {
        "rollouts/1.jsonl.gz": gzip.compress(
            "".join(json.dumps(verl(1, "a", n)) + "\n" for n in (0, 1)).encode()
        ),
        "rollouts/2.jsonl": [verl(2, "a", 0)],
    },
}


def parts_of(content: Any) -> list[bytes]:
    """What is appended to a file, piece by piece."""
    if isinstance(content, list):
        lines = [json.dumps(each).encode() + b"\n" for each in content]
        # Torn in the middle of each line but the first.
        return [lines[0], *(part for line in lines[1:] for part in (line[:17], line[17:]))]
    if isinstance(content, pl.DataFrame):
        stream = io.BytesIO()
        content.write_parquet(stream)
        content = stream.getvalue()
    data = content if isinstance(content, bytes) else json.dumps(content, indent=2).encode()
    return [data[:20], data[20:]]


@pytest.fixture
def follow(request: pytest.FixtureRequest) -> Callable[..., FollowedDump]:
    def start(paths: list[str], **options: Any) -> FollowedDump:
        dump = FollowedDump(paths, ReadOptions(**options))
        request.addfinalizer(dump.close)
        return dump

    return start


def attempts(dump: FollowedDump, keys: set[GroupKey]) -> set[tuple[Any, ...]]:
    members = [(key, member) for key in keys for member in dump.members(key)]
    return {(*key, member.trajectory_id, member.passed, member.invalid) for key, member in members}


def check_like_whole(dump: FollowedDump, keys: set[GroupKey], paths: list[str], **options: Any) -> None:
    """The attempts, their order in each group, and every text, are those of the whole dump."""
    with open_dump(paths, ReadOptions(**options)) as whole:
        rows = whole.index.with_row_index("row").filter(pl.col("row") == pl.col("primary_row"))
        columns = ("step", "group_id", "trajectory_id", "passed", "invalid")
        assert attempts(dump, keys) == set(rows.select(columns).iter_rows())
        expected = {
            (step, group, trajectory.trajectory_id): trajectory
            for (row, step, group) in rows.select("row", "step", "group_id").iter_rows()
            for _, trajectory in whole.read_trajectories([row])
        }
        for key in keys:
            names = rows.filter((pl.col("group_id") == key.group_id) & pl.col("step").eq_missing(key.step))
            assert [each.trajectory_id for each in dump.members(key)] == names["trajectory_id"].to_list()
            for trajectory in dump.read_group(key, dump.members(key)).trajectories:
                assert trajectory.messages == expected[(*key, trajectory.trajectory_id)].messages
                assert trajectory.model_patch == expected[(*key, trajectory.trajectory_id)].model_patch


def look(dump: FollowedDump, keys: set[GroupKey], n: int = 1) -> None:
    for _ in range(n):
        keys |= {event.key for event in dump.look()}


def write_slowly(folder: Path, files: Mapping[str, Any], names: list[str]) -> Iterator[None]:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for part in parts_of(files[name]):
            with path.open("ab") as stream:
                stream.write(part)
            yield


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("order", [1, -1], ids=["in order", "backwards"])
def test_what_comes_bit_by_bit_is_what_the_whole_dump_has(tmp_path, follow, layout, order):
    files = LAYOUTS[layout]
    root = str(tmp_path / next(iter(files)).split("/")[0])
    Path(root).mkdir()
    dump, keys = follow([root]), set()
    for _ in write_slowly(tmp_path, files, list(files)[::order]):
        look(dump, keys, 3)
    look(dump, keys, 3)
    check_like_whole(dump, {key for key in keys if dump.members(key)}, [root])
    assert dump.n_records == sum(len(member.rows) for key in keys for member in dump.members(key))


@pytest.mark.parametrize("layout", ["verl", "nemo-gym", "trl", "rllm, an episode a file"])
def test_a_file_that_is_named_is_followed_like_one_in_a_folder(tmp_path, follow, layout):
    name = next(iter(LAYOUTS[layout]))
    (tmp_path / name).parent.mkdir()
    path = str(tmp_path / name)
    dump, keys = follow([path]), set()
    for _ in write_slowly(tmp_path, LAYOUTS[layout], [name]):
        look(dump, keys, 3)
    look(dump, keys, 3)
    check_like_whole(dump, keys, [path])


def test_a_format_can_be_forced_and_an_unknown_one_is_refused(tmp_path, follow):
    path = tmp_path / "1.jsonl"
    path.write_text(json.dumps(verl(1, "a", 0)) + "\n")
    dump, keys = follow([str(path)], format="verl"), set()
    look(dump, keys)
    assert [each.trajectory_id for key in keys for each in dump.members(key)] == [f"{tmp_path.name}/1/1"]
    with pytest.raises(UsageError, match="--format is 'nonsense'"):
        follow([str(path)], format="nonsense")


@pytest.mark.parametrize("name", ["1.jsonl", "1.parquet"])
def test_a_mapped_reward_of_a_native_format_is_the_one_that_counts(tmp_path, follow, name):
    path, parts = tmp_path / name, {"correct": 1.0, "short": 0.25}
    row = {
        "group_index": 0,
        "index": 0,
        "response": "a",
        "tokens": [1],
        "status": "completed",
        "reward": parts,
    }
    options = {"format": "slime", "fields": {"reward": "rewards.short"}}
    if name.endswith(".parquet"):
        trl(1).with_columns(style=0.5).write_parquet(path)
        options = {"format": "trl", "fields": {"reward": "rewards.style"}}
    else:
        path.write_text(json.dumps(row) + "\n")
    dump = follow([str(path)], **options)
    rewards = [event.row.scalars.reward for _ in range(2) for event in dump.look()]
    with open_dump([str(path)], ReadOptions(**options)) as whole:
        assert rewards == whole.index["reward"].to_list()
    assert set(rewards) == ({0.5} if name.endswith(".parquet") else {0.25})


def test_marks_among_native_lines_end_groups_and_are_no_records(tmp_path, follow):
    path = tmp_path / "1.jsonl"
    row = verl(1, "a", 0, uid="u_0_0")
    mark = {"end_of_group": True, "group_id": "u", "step": 1}
    path.write_text("".join(json.dumps(each) + "\n" for each in (row, mark, {"end_of_dump": True})))
    dump = follow([str(path)])
    assert [(event.kind, event.key) for event in dump.look()] == [
        ("record", GroupKey(1, "u")),
        ("end_of_group", GroupKey(1, "u")),
    ]
    assert dump.is_ended
    with open_dump([str(path)], ReadOptions()) as whole:
        assert whole.index.height == 1


def test_a_bad_native_line_is_told_with_its_place_or_counted(tmp_path, follow):
    path = tmp_path / "1.jsonl"
    path.write_text(json.dumps(verl(1, "a", 0)) + "\n{garbage\n" + json.dumps(verl(1, "a", 1)) + "\n")
    with pytest.raises(InputError, match=r"1\.jsonl:2:2: invalid JSON"):
        follow([str(path)]).look()
    dump = follow([str(path)], on_bad_record="skip")
    assert len(dump.look()) == 2
    assert dump.n_bad_records == 1


@pytest.mark.parametrize("skips", [False, True], ids=["fail", "skip"])
def test_native_lines_that_were_rotated_away_are_refused_though_bad_records_are_skipped(
    tmp_path, follow, skips
):
    path = tmp_path / "1.jsonl"
    path.write_text("".join(json.dumps(verl(1, "a", n)) + "\n" for n in range(3)))
    dump = follow([str(path)], on_bad_record="skip" if skips else "fail")
    assert len(dump.look()) == 3
    path.write_text(json.dumps(verl(1, "b", 0)) + "\n")
    with pytest.raises(InputError, match="was replaced or cut while it was followed"):
        dump.look()


def test_a_whole_file_that_is_written_again_takes_back_what_it_gave(tmp_path, follow):
    """Agents save their log at every step, and writers of shards may write in place."""
    path = tmp_path / "a__a-1" / "a__a-1.traj.json"
    path.parent.mkdir()
    path.write_text(json.dumps(mini("a__a-1")))
    dump, key = follow([str(tmp_path)]), GroupKey(None, "a__a-1")
    look(dump, set(), 2)
    more = mini("a__a-1")
    more["messages"].append({"role": "user", "content": "more"})
    path.write_text(json.dumps(more))
    kinds = [[event.kind for event in dump.look()] for _ in range(2)]
    assert kinds == [["withdrawn"], ["record"]]
    assert len(dump.read_group(key, dump.members(key)).trajectories[0].messages) == 3
    assert dump.n_records == 1


def test_a_shard_is_taken_up_once_it_is_whole_however_it_is_written(tmp_path, follow):
    stream = io.BytesIO()
    trl(1).write_parquet(stream)
    dump, data = follow([str(tmp_path)]), stream.getvalue()
    shard = tmp_path / "completions_00001.parquet"
    for end in (4, 200, len(data) - 1):
        shard.write_bytes(data[:end])
        assert [len(dump.look()) for _ in range(3)] == [0, 0, 0]
    shard.write_bytes(data)
    assert [len(dump.look()) for _ in range(2)] == [0, 4]
    hidden = tmp_path / ".completions_00002.parquet"
    trl(2).write_parquet(hidden)
    assert [len(dump.look()) for _ in range(2)] == [0, 0]
    hidden.rename(tmp_path / "completions_00002.parquet")
    assert [len(dump.look()) for _ in range(2)] == [0, 4]


def test_the_first_file_of_a_folder_says_whether_it_is_native(tmp_path, follow):
    record = json.dumps({"group_id": "g", "trajectory_id": "a", "resolved": True}) + "\n"
    (tmp_path / "1.jsonl").write_text(record)
    dump = follow([str(tmp_path)])
    assert len(dump.look()) == 1
    (tmp_path / "2.jsonl").write_text(json.dumps(verl(1, "a", 0)) + "\n")
    assert dump.look() == []
    assert any("2.jsonl" in note and "not read" in note for note in dump.notes)


def test_what_cannot_be_followed_is_refused_with_what_can(tmp_path, follow):
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "1.pt").write_bytes(b"PK\x03\x04 a pickle")
    dump = follow([str(tmp_path / "dump")])
    dump.look()
    with pytest.raises(InputError, match=r"not read: reading it may run any code.*gagar convert"):
        dump.look()
    (tmp_path / "report.json").write_text(json.dumps({"resolved_ids": ["a"], "unresolved_ids": []}))
    dump = follow([str(tmp_path / "report.json")])
    with pytest.raises(InputError, match="verdicts without attempts") as refused:
        look(dump, set(), 2)
    assert "--join" in refused.value.hint
    with pytest.raises(UsageError, match="--follow needs files, folders or `-` of this machine"):
        follow(["s3://bucket/rollouts"])


def test_a_condition_may_name_a_column_of_the_native_row(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = tmp_path / "7.jsonl"
    rows = [verl(7, "p", n, n / 2, kind="code" if n else "chat") for n in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ReadOptions(extras=("kind",))
    dump = FollowedDump([str(path)], options, parse_condition('kind == "code"', "--eligible"))
    request.addfinalizer(dump.close)
    keys: set[GroupKey] = set()
    look(dump, keys, 3)
    (key,) = keys
    assert [each.is_eligible for each in dump.members(key)] == [False, True, True]
    with open_dump([str(path)], options) as whole:
        assert whole.index["extra:kind"].to_list() == ["chat", "code", "code"]
