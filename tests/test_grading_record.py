"""What a run keeps: every ranking once, together where several are done at once, also in the moment of a stop."""

import asyncio
import json
from pathlib import Path

import pytest

from gagar_cli.core.ranking import GroupRanking, RankedCandidate
from gagar_cli.core.schema import GroupKey
from gagar_cli.grading_record import RunRecord

MESSAGES = ({"role": "system", "content": "rules"},)


def graded(name: str, tokens: int = 10) -> GroupRanking:
    candidates = (RankedCandidate("a", "T1", 1), RankedCandidate("b", "T2", 1))
    grader = {"tokens": {"in": tokens, "out": 0}}
    return GroupRanking(
        GroupKey(None, name),
        "graded",
        candidates=candidates,
        grader=grader,
        input_digest="i",
        config_digest="c",
    )


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "r.jsonl")


def opened(path: str) -> RunRecord:
    record = RunRecord(path, path, overwrite=False)
    record.open({"model": "m"})
    return record


def groups_in(path: str) -> list[str]:
    return [json.loads(line)["group_id"] for line in Path(path).read_text().splitlines()]


def test_a_ranking_is_on_disk_when_keeping_it_returns(path):
    with opened(path) as record:

        async def keep() -> None:
            await record.keep(graded("g"), MESSAGES)
            assert groups_in(path) == ["g"]

        asyncio.run(keep())
        assert record.spent.n_tokens == 10


def test_rankings_done_at_once_are_each_written_once(path):
    names = [f"g{number}" for number in range(40)]
    with opened(path) as record:

        async def keep() -> None:
            await asyncio.gather(*(record.keep(graded(name), MESSAGES) for name in names))

        asyncio.run(keep())
    assert groups_in(path) == names
    with opened(path) as again:
        assert (len(again.done), again.spent.n_tokens) == (40, 400)


def test_what_was_done_in_the_moment_of_a_stop_is_kept(path):
    names = [f"g{number}" for number in range(20)]

    async def stopped(record: RunRecord) -> None:
        tasks = [asyncio.ensure_future(record.keep(graded(name), MESSAGES)) for name in names]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        assert all(
            isinstance(each, BaseException) or each is None
            for each in await asyncio.gather(*tasks, return_exceptions=True)
        )

    with opened(path) as record:
        asyncio.run(stopped(record))
    assert sorted(groups_in(path)) == sorted(names)


def test_a_ranking_that_the_ledger_has_is_not_written_again(path):
    with opened(path) as record:
        record.keep_all([graded("g"), graded("h")])
    with opened(path) as record:
        record.keep_all([graded("g"), graded("h", tokens=11)])
        assert set(record.rankings) == {GroupKey(None, "g"), GroupKey(None, "h")}
    assert groups_in(path) == ["g", "h", "h"]
