"""`--field` on native files: the format stays, and paths lead into the row as its trainer wrote it."""

import json
from typing import Any

import pytest

from gagar_cli.errors import InputError
from gagar_cli.io.following import FollowedDump
from gagar_cli.io.read_options import ReadOptions
from tests.io.formats.conftest import native as native
from tests.io.test_following_native import nemo, rllm, skyrl, trace, verifiers, verl

ROWS = [
    verl(1, "a", 0, 0.9, uid="s_0_0", judge={"ok": 1}, family="x"),
    verl(1, "a", 1, 0.8, uid="s_1_0", judge={"ok": 0}, family="x"),
]


@pytest.mark.parametrize("format_name", ["verl", None])
@pytest.mark.parametrize("path", ["judge.ok", "raw.judge.ok"])
@pytest.mark.parametrize("keep_raw", [False, True])
def test_a_field_is_found_in_the_native_row(
    native: Any, format_name: str | None, path: str, keep_raw: bool
) -> None:
    dump = native({"1.jsonl": ROWS}, format=format_name, fields={"resolved": path}, keep_raw=keep_raw)
    assert dump.forms[0][0] == "verl"
    assert dump.index.select("passed", "reward", "trajectory_id", "step").rows() == [
        (True, 0.9, "s_0", 1), (False, 0.8, "s_1", 1),
    ]  # fmt: skip
    assert all(record["messages"] for record in dump.iter_records())


def test_a_field_may_name_what_the_format_took(native: Any) -> None:
    dump = native({"1.jsonl": ROWS}, fields={"trajectory_id": "uid", "instance_id": "input"})
    assert dump.index["trajectory_id"].to_list() == ["s_0_0", "s_1_0"]


def test_a_mapped_group_is_told_as_such(native: Any) -> None:
    dump = native({"1.jsonl": ROWS}, fields={"group_id": "family"})
    assert dump.index["group_id"].to_list() == ["x", "x"]
    assert dump.report.group_id_source == "field:family"


def test_a_path_that_no_row_has_is_refused(native: Any) -> None:
    with pytest.raises(InputError, match=r'no record has "judge\.good"'):
        native({"1.jsonl": ROWS}, fields={"resolved": "judge.good"})


def test_a_mapped_flag_that_is_none_is_refused_with_its_place(native: Any) -> None:
    with pytest.raises(InputError, match=r"1: resolved is 0\.9, expected true, false or null"):
        native({"1.jsonl": ROWS}, fields={"resolved": "score"})


@pytest.mark.parametrize(
    ("rows", "format_name"),
    [
        ([rllm("g", n, correct=True) | {"judge": {"ok": 1 - n}} for n in range(2)], "rllm"),
        ([nemo(0, n, 1.0) | {"judge": {"ok": 1 - n}} for n in range(2)], "nemo-gym"),
        ([verifiers(0, 1.0) | {"judge": {"ok": 1 - n}} for n in range(2)], "verifiers"),
        ([skyrl("p", n, 1.0) | {"judge": {"ok": 1 - n}} for n in range(2)], "skyrl-eval"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_every_format_looks_into_its_rows(native: Any, rows: list[Any], format_name: str) -> None:
    dump = native({"x.jsonl": rows}, fields={"resolved": "judge.ok"})
    assert {name for name, _ in dump.forms} == {format_name}
    assert dump.index["passed"].to_list() == [True, False]


def test_the_traces_of_an_episode_bring_its_fields(native: Any) -> None:
    rows = [trace("g", n, 1.0) | {"judge": {"ok": 1 - n}} for n in range(2)]
    dump = native({"traces.jsonl": rows}, fields={"resolved": "judge.ok"})
    passed = dict(dump.index.select("trajectory_id", "passed").rows())
    assert sorted(passed.values()) == [False, True]


def test_a_followed_file_is_read_in_the_same_way(tmp_path: Any) -> None:
    path = tmp_path / "1.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    dump = FollowedDump([str(path)], ReadOptions(fields={"resolved": "judge.ok"}))
    keys = {event.key for event in dump.look(is_last=True) if event.kind == "record"}
    [members] = [dump.members(key) for key in keys]
    assert [member.passed for member in members] == [True, False]
    assert [member.rows[0].trajectory_id for member in members] == ["s_0", "s_1"]
    dump.close()


def test_a_file_that_looks_like_verdicts_holds_attempts_where_fields_are_named(native: Any) -> None:
    rows = [{"patch_exists": True, "resolved": n == 0, "task": "i", "points": 0.0} for n in range(2)]
    dump = native({"x.jsonl": rows}, fields={"instance_id": "task", "reward": "points"})
    assert dump.forms[0][0] == "canonical"
    assert dump.index["passed"].to_list() == [True, False]


def test_a_mapped_flag_of_a_canonical_dump_may_be_one_or_zero(read_dump: Any) -> None:
    rows = [{"group_id": "g", "trajectory_id": f"t{n}", "reward": 0.5, "acc": 1.0 - n} for n in range(2)]
    dump = read_dump(rows, fields={"resolved": "acc"})
    assert dump.index["passed"].to_list() == [True, False]


def test_what_is_no_flag_is_refused_with_the_way_to_say_where_one_is(read_dump: Any) -> None:
    with pytest.raises(InputError, match="resolved is 2, expected true, false or null") as raised:
        read_dump([{"group_id": "g", "trajectory_id": "t", "resolved": 2}])
    assert raised.value.hint == "map the field that says it with `--field resolved=PATH`"


@pytest.mark.parametrize(
    ("name", "written", "expected"),
    [
        ("reward", ["0.5", "tensor(1.)", "True", "nan"], [0.5, 1.0, 1.0, None]),
        ("n_turns", ["3", 4, "5.0", "nan"], [3, 4, 5, None]),
        ("step", ["7", 7, "np.int64", None], InputError),
        ("reward", ["high", 1.0, 1.0, 1.0], InputError),
    ],
)
def test_numbers_that_writers_made_text_of_are_read_where_they_are_mapped(
    native: Any, name: str, written: list[Any], expected: Any
) -> None:
    rows = [verl(1, "a", n, 1.0, theirs=value) for n, value in enumerate(written)]
    if expected is InputError:
        with pytest.raises(InputError, match=f"{name} is"):
            native({"1.jsonl": rows}, fields={name: "theirs"})
        return
    dump = native({"1.jsonl": rows}, fields={name: "theirs"})
    assert dump.index[name].to_list() == expected


def test_text_of_nan_is_no_verdict(native: Any) -> None:
    rows = [verl(1, "a", n, 1.0, ok=value) for n, value in enumerate(("True", "nan", float("nan"), "0"))]
    dump = native({"1.jsonl": rows}, fields={"resolved": "ok"})
    assert dump.index.select("passed", "invalid").rows() == [
        (True, False), (False, True), (False, True), (False, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [
        {"group_index": 1, "index": 0, "response": "x", "tokens": [1], "status": "completed", "prompt": "p", "reward": "n/a"},
        skyrl("a", 0, 1.0) | {"score": ["n/a"]},
    ],
    ids=["slime", "skyrl-eval"],
)  # fmt: skip
def test_a_reward_that_cannot_be_read_does_not_matter_where_another_is_named(native: Any, row: Any) -> None:
    rows = [row | {"judge": {"points": 0.5}}]
    with pytest.raises(InputError, match='is "n/a", expected a number'):
        native({"1.jsonl": rows})
    assert native({"1.jsonl": rows}, fields={"reward": "judge.points"}).index["reward"].to_list() == [0.5]
