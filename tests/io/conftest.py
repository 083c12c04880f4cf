import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from gagar_cli.io import followed_inputs, followed_joins
from gagar_cli.io.dump import Dump, ReadOptions, open_dump

Record = Mapping[str, object]
WriteDump = Callable[..., str]
ReadDump = Callable[..., Dump]


@pytest.fixture(autouse=True)
def every_look_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at growing files reads and lists them, however slow the machine was at the look before."""
    monkeypatch.setattr(followed_joins, "_READING_SHARE", 0)
    monkeypatch.setattr(followed_inputs, "_LISTING_SHARE", 0)


@pytest.fixture
def write_dump(tmp_path: Path) -> WriteDump:
    """Records (objects or raw lines) as a JSONL file; its path."""

    def write(records: Sequence[Record | str | bytes], name: str = "dump.jsonl") -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        lines = [each if isinstance(each, str | bytes) else json.dumps(each) for each in records]
        path.write_bytes(
            b"".join((each if isinstance(each, bytes) else each.encode()) + b"\n" for each in lines)
        )
        return str(path)

    return write


@pytest.fixture
def read_dump(write_dump: WriteDump, request: pytest.FixtureRequest) -> ReadDump:
    """The dump of some records, closed at the end of the test."""

    def read(records: Sequence[Record | str | bytes], **options: object) -> Dump:
        dump = open_dump([write_dump(records)], ReadOptions(**options))  # type: ignore[arg-type]
        request.addfinalizer(dump.close)
        return dump

    return read
