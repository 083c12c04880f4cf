"""Rows of trainers that lack what groups them, or what makes them rows of the format that was named."""

from typing import Any

import polars as pl
import pytest

from gagar_cli.errors import InputError
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.formats.base import Context
from gagar_cli.io.formats.parts import prompt_key
from tests.io.formats.conftest import Native

VERL = {"input": "q", "output": "o", "score": 1.0, "step": 1}
SKYRL = {"input_prompt": "q", "output_response": "o", "score": 1.0, "env_class": "x", "env_extras": {}}
SLIME = {
    "group_index": None,
    "prompt": "q",
    "response": "o",
    "tokens": [1],
    "status": "completed",
    "reward": 1.0,
}
NEMO_RL = {"content": ["q"], "rewards": [1.0], "token_ids": [[1]], "idx": 0}
R2E = {"trajectory_steps": [], "output_patch": "", "reward": 1, "problem_statement": "q"}
NEMO_GYM = {"responses_create_params": {"input": "q"}, "response": {"output": []}, "reward": 1.0}
TRACES = {"traces": [], "task": {"data": {"prompt": "q"}}, "env": {}}
RLLM = {"id": "e", "task": {"question": "q"}, "trajectories": [], "is_correct": True}
PROMPTS: list[tuple[dict[str, Any], str, str]] = [
    (VERL, "input", "input"),
    (SKYRL, "input_prompt", "input_prompt"),
    (SLIME, "prompt", "prompt"),
    (R2E, "problem_statement", "problem_statement"),
    (TRACES, "task", "task"),
    (RLLM, "task", "task"),
]


@pytest.mark.parametrize(("row", "key", "name"), PROMPTS)
def test_a_record_without_its_prompt_is_bad(native: Native, row: dict[str, Any], key: str, name: str) -> None:
    lost = {each: value for each, value in row.items() if each != key}
    with pytest.raises(InputError, match=rf"x\.jsonl:2: {name} is missing, expected the prompt") as caught:
        native({"x.jsonl": [row, lost]})
    assert "`--on-bad-record skip`" in (caught.value.hint or "")
    for value, shown in ((3, "3"), (None, "null"), ("", '""'), ([], r"\[\]")):
        with pytest.raises(InputError, match=rf"x\.jsonl:2: {name} is {shown}, expected the prompt"):
            native({"x.jsonl": [row, row | {key: value}]})


@pytest.mark.parametrize(
    ("row", "lost", "message"),
    [
        (NEMO_RL, {"content": [3]}, "content is 3, expected the prompt"),
        (NEMO_GYM, {"responses_create_params": {}}, "responses_create_params.input is missing, expected the prompt"),
        (TRACES, {"task": {}}, r"task is \{\}, expected the prompt"),
    ],
)  # fmt: skip
def test_a_prompt_within_is_named_by_its_path(native: Native, row: Any, lost: Any, message: str) -> None:
    with pytest.raises(InputError, match=rf"x\.jsonl:2: {message}"):
        native({"x.jsonl": [row, row | lost]})


def test_a_table_of_trl_with_a_null_prompt_is_refused_there(tmp_path: Any) -> None:
    path = tmp_path / "completions_1.parquet"
    row = {
        "step": [1, 1],
        "prompt": ["q", None],
        "completion": ["a", "b"],
        "r": [1.0, 0.0],
        "advantage": [0.0, 0.0],
    }
    pl.DataFrame(row).write_parquet(path)
    with pytest.raises(InputError, match=r"parquet:2: prompt is null, expected the prompt"):
        open_dump([str(path)], ReadOptions())


@pytest.mark.parametrize(
    ("row", "key", "own"),
    [
        (VERL, "input", {"uid": "u"}),
        (SLIME, "prompt", {"group_index": 4}),
        (SKYRL, "input_prompt", {"env_extras": {"instance_id": "a__b-1"}}),
        (RLLM, "task", {"task_hash": "h"}),
        (TRACES, "task", {"group": {"id": "g"}}),
    ],
)
def test_a_record_with_its_own_group_needs_no_prompt(
    native: Native, row: dict[str, Any], key: str, own: dict[str, Any]
) -> None:
    lost = {each: value for each, value in row.items() if each != key} | own
    assert native({"x.jsonl": [row | own, lost | ({"id": "f"} if "id" in row else {})]}).index[
        "group"
    ].to_list() == [0, 0]


def test_a_field_of_the_rows_own_groups_those_without_a_prompt(native: Native) -> None:
    lost = {"output": "o", "score": 1.0, "step": 1}
    rows = [VERL | {"task": "a"}, lost | {"task": "b"}, lost | {"task": "a"}]
    dump = native({"x.jsonl": rows}, group_by="task")
    assert dump.index["group_id"].to_list() == ["a", "b", "a"]
    assert dump.report.group_id_source == "field:task"
    assert not any("raw" in record for record in dump.iter_records())
    with pytest.raises(InputError, match=r"x\.jsonl:2: input is missing"):
        native({"x.jsonl": rows}, group_by="prompt")


def test_equal_prompts_have_one_key_and_none_has_none_unless_something_else_groups() -> None:
    lone, grouped = Context(), Context(is_grouped=True)
    assert (
        prompt_key("q", "input", lone)
        == prompt_key("q", "prompt", grouped)
        != prompt_key(["q"], "input", lone)
    )
    assert prompt_key(None, "input", grouped) == ""


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("verl", "output, score"),
        ("trl", "completion"),
        ("areal", "task_id, completion"),
        ("slime", "response, reward"),
        ("skyrl-eval", "output_response, score"),
        ("nemo-rl", "content, rewards"),
        ("r2e-gym", "trajectory_steps, reward"),
        ("verifiers", "example_id, completion"),
    ],
)
@pytest.mark.parametrize(
    "row", [{"a": 1}, {"group_id": "g", "trajectory_id": "t", "resolved": True, "messages": []}]
)
def test_a_format_that_is_named_for_other_records_is_refused_with_its_keys(
    native: Native, name: str, keys: str, row: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=rf"x\.jsonl:1: .*missing, expected a record of {name} with {keys}"):
        native({"x.jsonl": [row]}, format=name)


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("areal", {"task_id": None, "completion": "a"}, "task_id is null, expected a string"),
        ("verifiers", {"example_id": [], "completion": "a"}, r"example_id is \[\], expected a string"),
    ],
)
def test_a_key_that_groups_nothing_is_refused(native: Native, name: str, row: Any, message: str) -> None:
    with pytest.raises(InputError, match=rf"x\.jsonl:1: {message}"):
        native({"x.jsonl": [row]}, format=name)
