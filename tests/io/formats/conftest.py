import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gagar_cli.io.dump import Dump, ReadOptions, open_dump

Native = Callable[..., Dump]


@pytest.fixture
def native(tmp_path: Path, request: pytest.FixtureRequest) -> Native:
    """A dump of native files: name to lines (a list), a document (an object) or bytes; closed with the test."""

    def read(files: Mapping[str, Any], *names: str, joins: tuple[str, ...] = (), **options: Any) -> Dump:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            elif isinstance(content, list):
                path.write_text("".join(json.dumps(each) + "\n" for each in content))
            else:
                path.write_text(json.dumps(content, indent=2))
        paths = [str(tmp_path / name) for name in (names or list(files))]
        joined = tuple(str(tmp_path / each) for each in joins)
        dump = open_dump(paths, ReadOptions(joins=joined, **options))
        request.addfinalizer(dump.close)
        return dump

    return read
