import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gagar_cli.core.ranking import FLAGS, TIERS, Finding, GroupRanking, RankedCandidate
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.core.schema import GroupKey
from gagar_cli.errors import InputError
from gagar_cli.io.jsonl import dump_line
from gagar_cli.io.ledger import Ledger
from gagar_cli.io.ranked_columns import read_plain_rankings
from gagar_cli.io.rankings import (
    latest_rankings,
    ranking_from_record,
    ranking_to_record,
    read_rankings,
    write_rankings_parquet,
)

ID = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
FINDING = st.builds(
    Finding,
    kind=st.sampled_from(["patch", "turn", "test_output", "repo", "exec"]),
    at=TEXT,
    anchor=TEXT,
    claim=TEXT,
    supports=st.lists(st.sampled_from([*DIMENSIONS, *FLAGS])).map(tuple),
    compared_with=st.none() | TEXT,
    quote=st.none() | TEXT,
)
CANDIDATE = st.builds(
    RankedCandidate,
    trajectory_id=ID,
    tier=st.sampled_from(TIERS),
    rank=st.integers(0, 20),
    scores=st.dictionaries(st.sampled_from(DIMENSIONS), st.integers(1, 5)),
    weighted_score=st.none() | st.floats(1, 5),
    flags=st.dictionaries(st.sampled_from(FLAGS), st.booleans()),
    findings=st.lists(FINDING, max_size=2).map(tuple),
    unproven=st.lists(TEXT, max_size=2).map(tuple),
    rationale=TEXT,
)
RANKING = st.builds(
    GroupRanking,
    key=st.builds(GroupKey, step=st.none() | st.integers(-5, 5), group_id=ID),
    status=st.sampled_from(["graded"]),
    reason=st.none() | TEXT,
    candidates=st.lists(CANDIDATE, min_size=1, max_size=3, unique_by=lambda each: each.trajectory_id).map(
        tuple
    ),
    grader=st.dictionaries(TEXT, st.integers() | TEXT, max_size=2),
    input_digest=st.none() | TEXT,
    config_digest=st.none() | TEXT,
) | st.builds(
    GroupRanking,
    key=st.builds(GroupKey, step=st.none(), group_id=ID),
    status=st.sampled_from(["skipped", "ungraded"]),
    reason=TEXT,
)
MINIMAL = {"group_id": "g", "candidates": [{"trajectory_id": "t", "tier": "T1", "rank": 1}]}


@given(RANKING)
def test_a_ranking_reads_back_from_its_record(ranking: GroupRanking) -> None:
    assert ranking_from_record(json.loads(dump_line(ranking_to_record(ranking)))) == ranking


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.lists(RANKING, max_size=4, unique_by=lambda each: each.key))
def test_rankings_read_back_from_a_table(tmp_path: Path, rankings: list[GroupRanking]) -> None:
    write_rankings_parquet(str(tmp_path / "r.parquet"), rankings)
    assert list(read_rankings(str(tmp_path / "r.parquet"))) == rankings


def test_only_ids_tier_and_rank_are_needed() -> None:
    ranking = ranking_from_record(MINIMAL)
    assert (ranking.status, ranking.candidates) == ("graded", (RankedCandidate("t", "T1", 1),))


def test_an_integrity_violation_needs_neither_tier_nor_rank() -> None:
    record = {"group_id": "g", "candidates": [{"trajectory_id": "t", "flags": {"integrity_violation": True}}]}
    assert ranking_from_record(record).candidates[0].is_integrity_violation


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tier": "T4"}, r'candidates\[0\]\.tier is "T4", expected T1, T2 or T3'),
        ({"tier": None}, r"candidates\[0\]\.tier is null"),
        ({"rank": -1}, r"rank is -1, expected an integer from 0"),
        ({"rank": 1.0}, r"rank is 1\.0, expected an integer"),
        ({"rank": True}, "rank is true"),
        ({"rank": None}, "rank is null"),
        ({"trajectory_id": ""}, "trajectory_id is"),
        ({"trajectory_id": None}, "trajectory_id is null"),
        ({"scores": {"approach": 0}}, "scores.approach is 0, expected an integer from 1 to 5"),
        ({"scores": {"approach": 6}}, "scores.approach is 6"),
        ({"scores": {"approach": 4.5}}, r"scores\.approach is 4\.5"),
        ({"scores": {"approach": "5"}}, 'scores.approach is "5"'),
        ({"scores": {"beauty": 5}}, 'scores has "beauty", expected approach'),
        ({"scores": [5]}, r"scores is \[5\], expected an object"),
        ({"flags": {"regression": 1}}, "flags.regression is 1, expected true or false"),
        ({"flags": {"ugly": True}}, 'flags has "ugly"'),
        ({"weighted_score": float("nan")}, "weighted_score is NaN"),
        ({"weighted_score": 0.5}, r"weighted_score is 0\.5, expected a number from 1 to 5"),
        ({"findings": [{"kind": "guess"}]}, r'findings\[0\]\.kind is "guess"'),
        ({"findings": [{"kind": "patch"}]}, r"findings\[0\]\.at is null, expected text"),
        ({"findings": {}}, "findings is {}, expected a list"),
        ({"unproven": [1]}, "unproven holds 1, expected text"),
        ({"rationale": 5}, r"candidates\[0\]\.rationale is 5"),
    ],
)
def test_an_impossible_candidate_is_refused(change: dict[str, object], message: str) -> None:
    candidate = {"trajectory_id": "t", "tier": "T1", "rank": 1, **change}
    with pytest.raises(InputError, match=message):
        ranking_from_record({"group_id": "g", "candidates": [candidate]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group_id": None}, "group_id is null"),
        ({"group_id": ""}, "group_id is"),
        ({"step": "1"}, 'step is "1"'),
        ({"step": 1.0}, r"step is 1\.0"),
        ({"status": "done"}, 'status is "done", expected graded, skipped or ungraded'),
        ({"candidates": []}, "candidates is empty"),
        ({"candidates": "c01 > c02"}, "candidates is .*, expected a list"),
        ({"candidates": MINIMAL["candidates"] * 2}, 'names trajectory "t" twice'),  # type: ignore[operator]
        ({"candidates": [5]}, r"candidates\[0\] is 5, expected an object"),
        ({"grader": []}, r"grader is \[\]"),
        ({"input_digest": 5}, "input_digest is 5, expected text or null"),
    ],
)
def test_an_impossible_ranking_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ranking_from_record({**MINIMAL, **change})


def test_a_bad_line_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text(json.dumps(MINIMAL) + '\n{"group_id": 1.5}\n')
    with pytest.raises(InputError, match=r"r\.jsonl:2: candidates is empty"):
        list(read_rankings(str(tmp_path / "r.jsonl")))


def test_nan_is_refused_in_a_rankings_file(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"group_id": "g", "grader": {"seconds": NaN}}')
    with pytest.raises(InputError, match=r"r\.jsonl:1: grader\.seconds is NaN"):
        list(read_rankings(str(tmp_path / "r.jsonl")))


def test_a_ledger_is_a_rankings_file_and_a_changed_line_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Ledger.open(str(path), config={}) as ledger:
        ledger.append(ranking_to_record(ranking_from_record(MINIMAL)))
    assert list(read_rankings(str(path))) == [ranking_from_record(MINIMAL)]
    path.write_text(path.read_text().replace("T1", "T3"))
    with pytest.raises(InputError, match=r"r\.jsonl:1: checksum is"):
        list(read_rankings(str(path)))


def test_the_last_ranking_of_a_group_wins() -> None:
    first, other = ranking_from_record(MINIMAL), ranking_from_record({**MINIMAL, "group_id": "h"})
    last = ranking_from_record({**MINIMAL, "reason": "again"})
    assert latest_rankings([first, other, last]) == {GroupKey(None, "g"): last, GroupKey(None, "h"): other}


def test_rows_of_a_group_need_not_be_adjacent(tmp_path: Path) -> None:
    rows = [("g", "a"), ("h", "b"), ("g", "c")]
    table = pl.DataFrame(
        [{"group_id": group, "trajectory_id": each, "tier": "T1", "rank": 1} for group, each in rows]
    )
    table.write_parquet(tmp_path / "r.parquet")
    read = {ranking.key.group_id: ranking for ranking in read_rankings(str(tmp_path / "r.parquet"))}
    assert [candidate.trajectory_id for candidate in read["g"].candidates] == ["a", "c"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"tier": ["T9"]}, r"r\.parquet:1: candidates\[0\]\.tier"),
        ({"findings": ["not json"]}, r"r\.parquet:1: findings is \"not json\", expected JSON text"),
        ({"trajectory_id": [None]}, r"r\.parquet:1: candidates\[0\]\.trajectory_id is null"),
        ({"score_approach": [9]}, r"r\.parquet:1: candidates\[0\]\.scores\.approach is 9"),
    ],
)
def test_a_bad_row_is_told_with_its_place(
    tmp_path: Path, columns: dict[str, list[object]], message: str
) -> None:
    table = {"group_id": ["g"], "trajectory_id": ["t"], "tier": ["T1"], "rank": [1], **columns}
    pl.DataFrame(table).write_parquet(tmp_path / "r.parquet")
    with pytest.raises(InputError, match=message):
        list(read_rankings(str(tmp_path / "r.parquet")))


def test_a_table_that_is_none_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "r.parquet").write_text("hello")
    with pytest.raises(InputError, match=r"r\.parquet: cannot be read as Parquet"):
        list(read_rankings(str(tmp_path / "r.parquet")))


@pytest.mark.parametrize(
    ("name", "content", "message", "hint"),
    [
        ("r.jsonl", b"version https://git-lfs.github.com/spec/v1\n", "r.jsonl: a pointer of Git LFS", "git lfs pull"),
        ("r.jsonl", b"<!DOCTYPE html>", "r.jsonl: a web page", "download the file again"),
        ("r.jsonl", b"PK\x03\x04rest", "r.jsonl: a zip archive", "unpack it"),
        ("r.jsonl.gz", b"{}\n", "r.jsonl.gz: damaged gzip stream", "name it without .gz"),
        ("r.jsonl.gz", gzip.compress(b'{"group_id": "g"}\n', mtime=0)[:-9], "r.jsonl.gz: truncated gzip stream", "copy it again"),
        ("r.parquet", b"{}\n", "r.parquet: cannot be read as Parquet", "another name, such as .jsonl"),
        ("absent/r.jsonl", None, "absent/r.jsonl: no such file", "there is no folder absent"),
        (".", None, ".: a folder, expected a file", "name the file in it"),
    ],
    ids=["pointer", "page", "zip", "not gzip", "cut", "not Parquet", "absent", "folder"],
)  # fmt: skip
def test_a_file_that_is_something_else_is_told_with_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes | None, message: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        list(read_rankings(name))
    assert caught.value.message.startswith(message)
    assert hint in (caught.value.hint or "")


def test_a_name_of_a_compressed_file_is_no_shortcut(tmp_path: Path) -> None:
    """What the lines refuse, their reading as columns does not take."""
    path = tmp_path / "r.jsonl.gz"
    path.write_text(json.dumps(MINIMAL) + "\n")
    assert read_plain_rankings(str(path)) is None
    assert read_plain_rankings(str(path.rename(tmp_path / "r.jsonl"))) is not None
