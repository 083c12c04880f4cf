"""A path that no record has is refused with the ones that were probably meant."""

import json
from typing import Any

import polars as pl
import pytest

from gagar_cli.errors import InputError
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.near_names import near_paths, paths_of
from tests.io.formats.conftest import native as native
from tests.io.test_following_native import verl

CANONICAL = [{"group_id": "g", "trajectory_id": "t", "outcome": {"reward": 1.0, "passed": True}}]
JUDGED = [verl(1, "a", 0, 1.0, judge={"verdict": True})]


@pytest.mark.parametrize(
    ("rows", "field", "message", "hint"),
    [
        (CANONICAL, ("reward", "outcome.rewad"), 'neither reward nor resolved: there is no "outcome.rewad"', "outcome.reward"),
        (CANONICAL, ("resolved", "passed"), 'neither reward nor resolved: there is no "passed"', "outcome.passed"),
        ([CANONICAL[0] | {"reward": 1.0}], ("step", "zzz"), 'no record has "zzz"', None),
        (JUDGED, ("resolved", "judge.verdct"), 'no record has "judge.verdct"', "judge.verdict"),
        (JUDGED, ("resolved", "verdict"), 'no record has "verdict"', "judge.verdict"),
        (JUDGED, ("reward", "scor"), 'neither reward nor resolved: there is no "scor"', "score"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("has_join", [False, True])
def test_a_misspelt_path_is_refused_with_what_is_near(
    native: Any, rows: Any, field: tuple[str, str], message: str, hint: str | None, has_join: bool
) -> None:
    name, path = field
    joins = {"joins": ("j.jsonl",)} if has_join else {}
    told = [{"trajectory_id": "none", "model_patch": "p"}]
    if has_join and "neither" in message:
        return  # a verdict may be joined
    with pytest.raises(InputError) as raised:
        native({"1.jsonl": rows, "j.jsonl": told}, "1.jsonl", fields={name: path}, **joins)
    assert message in raised.value.message
    near = raised.value.hint.partition("; near are ")
    assert near[0] == f"it was named by `--field {name}={path}`"
    assert near[2].split(", ")[0] == (hint or "")


@pytest.mark.parametrize("name", ["reward", "resolved", "model_patch"])
def test_a_path_that_leads_nowhere_is_refused_unless_joined_files_say_it(native: Any, name: str) -> None:
    told = {"trajectory_id": "s_0", "test_output": "x"}
    rows = [JUDGED[0] | {"uid": "s_0_0"}]
    with pytest.raises(InputError, match=r'no record has "nowhere"') as raised:
        native({"1.jsonl": rows, "j.jsonl": [told]}, "1.jsonl", fields={name: "nowhere"}, joins=("j.jsonl",))
    assert raised.value.hint == f"it was named by `--field {name}=nowhere`"
    said = [told | {name: "p" if name == "model_patch" else 1}]
    dump = native({"j.jsonl": said}, "1.jsonl", fields={name: "nowhere"}, joins=("j.jsonl",))
    assert any(f"what `--field {name}=…` names" in note for note in dump.report.notes)


def test_columns_of_parquet_that_are_not_read_are_near_too(tmp_path: Any) -> None:
    path = str(tmp_path / "d.parquet")
    rows = [
        {"group_id": "g", "trajectory_id": "t", "reward": 1.0, "judge": json.dumps({"ok": 1}), "accuracy": 1}
    ]
    pl.DataFrame(rows).write_parquet(path)
    with pytest.raises(InputError, match='no record has "acuracy"') as raised:
        open_dump([path], ReadOptions(fields={"resolved": "acuracy"}))
    assert str(raised.value.hint).endswith("; near are accuracy")


@pytest.mark.parametrize(
    ("path", "offered", "expected"),
    [
        ("a.b", [], []),
        ("x" * 10_000, ["y" * 10_000, "y"], []),
        ("Judge.OK", ["judge.ok", "ok"], ["judge.ok", "ok"]),
        ("a.reward", ["b.c.reward", "d.reward"], ["d.reward", "b.c.reward"]),
    ],
)
def test_near_paths(path: str, offered: list[str], expected: list[str]) -> None:
    assert near_paths(path, offered) == expected


def test_a_record_of_very_many_names_offers_some() -> None:
    assert len(paths_of({str(n): {"a": {"b": {"c": {"d": 1}}}} for n in range(5000)})) == 1000
    assert paths_of({"a": {"b": {"c": {"d": {"e": 1}}}}}) == ["a", "a.b", "a.b.c", "a.b.c.d"]
