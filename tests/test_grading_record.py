"""What a run keeps: every ranking once, together where several are done at once, also in the moment of a stop."""

import asyncio
import json
import os
import random
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from gagar_cli.core.ranking import GroupRanking, RankedCandidate
from gagar_cli.core.schema import GroupKey
from gagar_cli.errors import OutputError
from gagar_cli.grading_record import RunRecord
from gagar_cli.io.patient_stdout import PatientStdout

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
        asyncio.run(record.keep_all([graded("g"), graded("h")]))
    with opened(path) as record:
        asyncio.run(record.keep_all([graded("g"), graded("h", tokens=11)]))
        assert set(record.rankings) == {GroupKey(None, "g"), GroupKey(None, "h")}
    assert groups_in(path) == ["g", "h", "h"]


def test_what_was_done_when_the_reader_of_stdout_left_is_in_the_ledger(path):
    """Two groups are done while the write of the first meets the closed pipe."""
    reader, writer = os.pipe()
    os.close(reader)

    async def keep(record: RunRecord) -> None:
        first = asyncio.ensure_future(record.keep(graded("g1"), MESSAGES))
        await asyncio.sleep(0)
        await asyncio.gather(first, record.keep(graded("g2"), MESSAGES))

    def run_until_closed() -> None:
        with RunRecord("-", path, overwrite=False) as record:
            record._stdout = PatientStdout(writer)
            record.open({"model": "m"})
            asyncio.run(keep(record))

    with pytest.raises(BrokenPipeError):
        run_until_closed()
    os.close(writer)
    assert groups_in(path) == ["g1", "g2"]


def test_a_ranking_whose_conversation_finds_no_room_is_kept_all_the_same(path):
    """A limit on the size of files, which the conversation passes and the ledger does not."""
    noise = ({"role": "tool", "content": random.Random(7).randbytes(30_000).hex()},)
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)

    def keep_on_a_full_disk() -> None:
        with opened(path) as record:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, usual[1]))
            asyncio.run(record.keep(graded("g"), noise))

    try:
        with pytest.raises(OutputError, match=r"conversations\.jsonl\.zst: no space left on device"):
            keep_on_a_full_disk()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert groups_in(path) == ["g"]
    assert Path(f"{path}.conversations.jsonl.zst").read_bytes() == b""


def test_a_reader_that_does_not_read_keeps_no_run_from_stopping(path):
    """A pipe holds 64 KiB: the write of the second ranking waits, until the run is cancelled."""
    reader, writer = os.pipe()
    large = [replace(graded(name), reason="x" * 50_000) for name in ("g1", "g2")]

    async def stopped(record: RunRecord) -> None:
        await record.keep(large[0], MESSAGES)
        waiting = asyncio.ensure_future(record.keep(large[1], MESSAGES))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(waiting, 10)

    with RunRecord("-", path, overwrite=False) as record:
        record._stdout = PatientStdout(writer)
        record.open({"model": "m"})
        asyncio.run(stopped(record))
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        assert json.loads(stream.readline())["group_id"] == "g1"
    assert groups_in(path) == ["g1", "g2"]


def test_what_is_on_disk_is_not_held_but_read_again(path):
    with opened(path) as record:
        first = asyncio.run(record.keep(graded("g"), MESSAGES))
        assert first.ranking is None
        assert record.read(first) == graded("g")
    with opened(path) as again:
        assert again.done[first.key].ranking is None
        assert list(again.read_done()) == [graded("g")]


def test_the_last_line_of_a_group_is_what_is_read_again(path):
    later = replace(graded("g"), status="ungraded", reason="verdict: silent", candidates=())
    with opened(path) as record:
        asyncio.run(record.keep_all([graded("g"), graded("h"), later]))
        assert list(record.read_done()) == [later, graded("h")]
    with opened(path) as again:
        assert list(again.read_done()) == [later, graded("h")]
        assert again.settled(GroupKey(None, "g"), "i") is None  # under other settings


def test_a_settled_ranking_goes_to_stdout_whole(path):
    with opened(path) as record:
        asyncio.run(record.keep(graded("g")))
    reader, writer = os.pipe()
    with RunRecord("-", path, overwrite=False) as record:
        record._stdout = PatientStdout(writer)
        record.open({"model": "m"})
        asyncio.run(record.keep_settled(record.done[GroupKey(None, "g")]))
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        assert json.loads(stream.readline())["candidates"][0]["trajectory_id"] == "a"
    assert groups_in(path) == ["g"]


def test_without_a_ledger_rankings_stay_in_memory():
    with RunRecord("r.jsonl", None, overwrite=False) as record:
        record.open({"model": "m"})
        asyncio.run(record.keep(graded("g")))
        assert list(record.read_done()) == [graded("g")]
