"""What a join may change: it adds what the dump does not say, and never takes away what it does."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gagar_cli.convert import ConvertSettings, run
from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from gagar_cli.io.following import FollowedDump

Opened = Callable[..., Dump]
PASSED, FAILED = (True, None), (False, None)
NONE, UNPAID = (False, "not_evaluated"), (False, "no_reward")

ROWS: list[dict[str, Any]] = [
    {"group_id": "g", "instance_id": "i", "trajectory_id": f"t{number}"} for number in range(4)
]
REWARDS = [1.0, 0.0, 1.0, 0.0]


def rewarded(*numbers: int) -> list[dict[str, Any]]:
    return [row | ({"reward": REWARDS[n]} if n in numbers else {}) for n, row in enumerate(ROWS)]


ALL, SOME, LAST, NOTHING = rewarded(0, 1, 2, 3), rewarded(0, 1), rewarded(2, 3), rewarded()


def say(**facts: list[Any]) -> list[dict[str, Any]]:
    """Joined rows about t0, t1, …, of those values that are not None."""
    length = max(map(len, facts.values()))
    rows = []
    for number in range(length):
        told = {name: values[number] for name, values in facts.items() if number < len(values)}
        rows.append({"trajectory_id": f"t{number}"} | {k: v for k, v in told.items() if v is not None})
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def opened(tmp_path, request) -> Opened:
    def read(rows: list[dict[str, Any]], joined: list[dict[str, Any]], **options: Any) -> Dump:
        joins = (write(tmp_path / "joined.jsonl", joined),)
        dump = open_dump([write(tmp_path / "dump.jsonl", rows)], ReadOptions(joins=joins, **options))
        request.addfinalizer(dump.close)
        return dump

    return read


def outcome(dump: Dump) -> list[tuple[bool, str | None]]:
    return dump.index.select("passed", "invalid_reason").rows()


PATCHES = say(model_patch=["p0", "p1", "p2", "p3"])
VERDICTS = say(resolved=[False, True, True, False])
TWO = say(resolved=[False, True])
BOTH = say(model_patch=["p0", "p1", "p2", "p3"], resolved=[False, True, True, False])
PAID = say(reward=[0.0, 1.0, 1.0, 0.0])


@pytest.mark.parametrize("container", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    ("rows", "joined", "expected", "rewards"),
    [
        pytest.param(ALL, PATCHES, [PASSED, FAILED, PASSED, FAILED], REWARDS, id="all-patch"),
        pytest.param(ALL, VERDICTS, [FAILED, PASSED, PASSED, FAILED], REWARDS, id="all-verdict"),
        pytest.param(ALL, TWO, [FAILED, PASSED, PASSED, FAILED], REWARDS, id="all-two verdicts"),
        pytest.param(ALL, BOTH, [FAILED, PASSED, PASSED, FAILED], REWARDS, id="all-both"),
        # A reward of the dump stands; the verdict in the joined file is by its own reward, which nobody asked for.
        pytest.param(ALL, PAID, [PASSED, FAILED, PASSED, FAILED], REWARDS, id="all-reward"),
        pytest.param(SOME, PATCHES, [PASSED, FAILED, UNPAID, UNPAID], [1.0, 0.0, None, None], id="some-patch"),
        pytest.param(LAST, PATCHES, [UNPAID, UNPAID, PASSED, FAILED], [None, None, 1.0, 0.0], id="last-patch"),
        # Of a file with rewards, those that lack one have no number to take part with, whatever their verdict.
        pytest.param(SOME, TWO, [FAILED, PASSED, NONE, NONE], [1.0, 0.0, None, None], id="some-two verdicts"),
        pytest.param(SOME, BOTH, [FAILED, PASSED, UNPAID, UNPAID], [1.0, 0.0, None, None], id="some-both"),
        pytest.param(SOME, PAID, [PASSED, FAILED, PASSED, FAILED], [1.0, 0.0, 1.0, 0.0], id="some-reward"),
        pytest.param(NOTHING, PATCHES, [NONE] * 4, [None] * 4, id="none-patch"),
        pytest.param(NOTHING, VERDICTS, [FAILED, PASSED, PASSED, FAILED], [0.0, 1.0, 1.0, 0.0], id="none-verdict"),
        pytest.param(NOTHING, TWO, [FAILED, PASSED, NONE, NONE], [0.0, 1.0, None, None], id="none-two verdicts"),
        pytest.param(NOTHING, BOTH, [FAILED, PASSED, PASSED, FAILED], [0.0, 1.0, 1.0, 0.0], id="none-both"),
        pytest.param(NOTHING, PAID, [FAILED, PASSED, PASSED, FAILED], [0.0, 1.0, 1.0, 0.0], id="none-reward"),
    ],
)  # fmt: skip
def test_the_matrix_of_rewards_and_joined_facts(
    tmp_path: Path,
    container: str,
    rows: list[dict[str, Any]],
    joined: list[dict[str, Any]],
    expected: list[Any],
    rewards: list[float | None],
) -> None:
    path = tmp_path / f"dump.{container}"
    if container == "jsonl":
        write(path, rows)
    else:
        pl.DataFrame(rows).write_parquet(path)
    options = ReadOptions(joins=(write(tmp_path / "joined.jsonl", joined),))
    with open_dump([str(path)], options) as dump:
        found = outcome(dump)
        assert dump.index["reward"].to_list() == rewards
    assert found == expected


def notes_of(dump: Dump, word: str) -> list[str]:
    return [note for note in dump.report.notes if word in note]


def test_a_dump_that_only_patches_are_joined_to_is_written_as_it_counts(
    opened: Opened, tmp_path: Path
) -> None:
    first = opened(SOME, PATCHES)
    records = list(first.iter_records())
    assert [(record.get("reward", "absent"), "resolved" in record) for record in records] == [
        (1.0, False), (0.0, False), (None, False), (None, False),
    ]  # fmt: skip
    with open_dump([write(tmp_path / "again.jsonl", records)], ReadOptions()) as again:  # type: ignore[arg-type]
        assert outcome(again) == outcome(first)


def test_rewards_that_contradict_are_told_and_that_of_the_dump_stands(opened: Opened) -> None:
    dump = opened(ALL, PAID)
    assert dump.index["reward"].to_list() == REWARDS
    [note] = notes_of(dump, "contradict")
    assert note.startswith("--join: 2 verdicts contradict the one that stands: ")
    assert "dump.jsonl:1 against" in note
    assert "(stands: 1.0)" in note


def test_a_reward_that_is_nan_is_none_and_a_joined_one_takes_its_place(
    opened: Opened, tmp_path: Path
) -> None:
    path = tmp_path / "nan.jsonl"
    path.write_text('{"group_id":"g","trajectory_id":"t0","reward":NaN}\n')
    joined = write(tmp_path / "joined.jsonl", say(reward=[0.5]))
    with open_dump([str(path)], ReadOptions(joins=(joined,), pass_threshold=0.5)) as dump:
        assert dump.index.select("reward", "passed").rows() == [(0.5, True)]
        assert not notes_of(dump, "contradict")


@pytest.mark.parametrize(
    ("own", "expected", "n_contradictions"),
    [(True, PASSED, 1), (False, (False, "infra_failure"), 0), (None, (False, "infra_failure"), 0)],
)
def test_what_passed_was_evaluated_whatever_broke_elsewhere(
    opened: Opened, own: bool | None, expected: object, n_contradictions: int
) -> None:
    dump = opened([ROWS[0] | {"resolved": own}], say(infra_failure=[True]))
    assert outcome(dump) == [expected]
    assert len(notes_of(dump, "1 verdict contradicts")) == n_contradictions


MAPPED: list[dict[str, Any]] = [
    {"group_id": "g", "trajectory_id": "t0", "outcome": {"ok": True, "score": 1.0}},
    {"group_id": "g", "trajectory_id": "t1", "outcome": {"ok": None, "score": 0.0}},
    {"group_id": "g", "trajectory_id": "t2", "outcome": {"score": 0.0}},
    {"group_id": "g", "trajectory_id": "t3"},
]
FIELDS = {"resolved": "outcome.ok", "reward": "outcome.score"}


@pytest.mark.parametrize("container", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    ("joined", "passed", "reasons"),
    [
        (PATCHES, [True, False, False, False], [None, *["not_evaluated"] * 3]),
        (
            say(resolved=[False, True, True, False]),
            [True, True, True, False],
            [None, None, None, "no_reward"],
        ),
        (
            say(resolved=[False, True, True, False], reward=[9.0, 9.0, 9.0, 2.0]),
            [True, True, True, False],
            [None] * 4,
        ),
    ],
    ids=["patch", "verdict", "both"],
)
def test_joined_facts_reach_the_fields_that_the_user_maps(
    tmp_path: Path,
    container: str,
    joined: list[dict[str, Any]],
    passed: list[bool],
    reasons: list[str | None],
) -> None:
    path = tmp_path / f"dump.{container}"
    if container == "jsonl":
        write(path, MAPPED)
    else:
        pl.DataFrame(MAPPED).write_parquet(path)
    joins = (write(tmp_path / "joined.jsonl", joined),)
    with open_dump([str(path)], ReadOptions(joins=joins, fields=FIELDS)) as dump:
        if container == "jsonl" and joined == PATCHES:
            # Lines that lack the field are judged by reward where no verdict is joined, unless others of the file have it.
            assert dump.index["passed"].to_list() == passed
        assert (dump.index["passed"].to_list(), dump.index["invalid_reason"].to_list()) == (passed, reasons)
        own = next(dump.iter_records())["outcome"]
        assert isinstance(own, Mapping)
        assert (own["ok"], own["score"]) == (True, 1.0)


def test_mapped_fields_of_attempts_in_a_list_are_joined(tmp_path: Path) -> None:
    record = {"group_id": "g", "tries": [{"trajectory_id": f"t{n}", "end": {"score": 0.0}} for n in range(2)]}
    options = ReadOptions(
        joins=(write(tmp_path / "joined.jsonl", say(resolved=[True, False], model_patch=["p", "q"])),),
        explode="tries",
        fields={"resolved": "end.ok", "model_patch": "end.diff", "reward": "end.score"},
    )
    with open_dump([write(tmp_path / "dump.jsonl", [record])], options) as dump:
        assert outcome(dump) == [PASSED, FAILED]
        assert [each.model_patch for _, each in dump.read_trajectories([0, 1])] == ["p", "q"]


def test_a_mapped_field_that_only_joined_files_have_is_told(opened: Opened) -> None:
    dump = opened(ALL, VERDICTS, fields={"resolved": "outcme.ok"})
    assert outcome(dump) == [FAILED, PASSED, PASSED, FAILED]
    [note] = notes_of(dump, "--field")
    assert (
        note == "--join: no record of the dump has what `--field resolved=…` names: joined files alone say it"
    )
    with pytest.raises(InputError, match="no record has"):
        opened(ALL, PATCHES, fields={"resolved": "outcme.ok"})


@pytest.mark.parametrize("fields", [{}, FIELDS], ids=["own names", "mapped"])
def test_a_followed_dump_counts_the_same(opened: Opened, tmp_path: Path, fields: Mapping[str, str]) -> None:
    rows = MAPPED if fields else SOME
    for joined in (VERDICTS, PATCHES):
        whole = opened(rows, joined, fields=fields)
        followed = FollowedDump(
            [str(tmp_path / "dump.jsonl")],
            ReadOptions(joins=(str(tmp_path / "joined.jsonl"),), fields=fields),
        )
        try:
            events = [*followed.look(), *followed.look(is_last=True)]
            members = followed.members(next(event.key for event in events))
            found = [(each.trajectory_id, each.passed, each.invalid) for each in members]
        finally:
            followed.close()
        assert found == whole.index.select("trajectory_id", "passed", "invalid").rows()


def test_a_mapped_dump_that_is_joined_converts_to_what_it_counts_as(tmp_path: Path) -> None:
    """The object that a path leads into stays as it was, under `raw`."""
    options = ReadOptions(joins=(write(tmp_path / "joined.jsonl", VERDICTS),), fields=FIELDS)
    dump, made = write(tmp_path / "dump.jsonl", MAPPED), str(tmp_path / "made.jsonl")
    run(ConvertSettings((dump,), made, options))
    records = [json.loads(line) for line in Path(made).read_text().splitlines()]
    assert [record["resolved"] for record in records] == [True, True, True, False]
    assert [record["reward"] for record in records] == [1.0, 0.0, 0.0, None]
    assert json.loads(records[1]["raw"]) == {"outcome": {"ok": None, "score": 0.0}}
    with open_dump([dump], options) as first, open_dump([made], ReadOptions()) as second:
        assert outcome(first) == outcome(second)
