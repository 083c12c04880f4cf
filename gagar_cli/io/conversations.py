"""The grader's conversations, kept beside a ledger: one zstd frame a group, so that a torn end loses only the last."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import zstandard

from gagar_cli.core.schema import GroupKey
from gagar_cli.errors import OutputError
from gagar_cli.io.streams import show_path


class ConversationLog:
    """Appends conversations to a `.jsonl.zst` file; any zstd tool reads it as JSON lines."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, 0o666)
        except OSError as error:
            raise OutputError(f"{show_path(path)}: {(error.strerror or str(error)).lower()}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def append(self, key: GroupKey, messages: Sequence[Mapping[str, object]]) -> None:
        """Keep one group's conversation.

        Raises:
            OutputError: the disk does not take it.
        """
        record = {"step": key.step, "group_id": key.group_id, "messages": list(messages)}
        line = json.dumps(record, ensure_ascii=True) + "\n"
        try:
            os.write(self._descriptor, zstandard.ZstdCompressor(level=3).compress(line.encode()))
        except OSError as error:
            raise OutputError(
                f"{show_path(Path(self.path))}: {(error.strerror or str(error)).lower()}"
            ) from error
