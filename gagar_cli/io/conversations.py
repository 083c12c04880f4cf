"""The grader's conversations, kept beside a ledger: one zstd frame a group, so that a torn end loses only the last."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Self

import zstandard

from gagar_cli.core.schema import GroupKey
from gagar_cli.errors import OutputError
from gagar_cli.io.streams import show_path

_CHUNK_BYTES = 1024**2


class ConversationLog:
    """Appends conversations to a `.jsonl.zst` file; any zstd tool reads it as JSON lines."""

    def __init__(self, path: str, *, overwrite: bool = False) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._descriptor = os.open(path, flags, 0o666)
            self._n_bytes = 0 if overwrite else _complete_bytes(self._descriptor)
            os.ftruncate(self._descriptor, self._n_bytes)
        except OSError as error:
            raise self._failure(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def append(self, key: GroupKey, messages: Sequence[Mapping[str, object]]) -> None:
        """Keep one group's conversation, whole or not at all.

        Raises:
            OutputError: the disk does not take it.
        """
        record = {"step": key.step, "group_id": key.group_id, "messages": list(messages)}
        line = json.dumps(record, ensure_ascii=True) + "\n"
        frame = zstandard.ZstdCompressor(level=3).compress(line.encode())
        try:
            n_written = os.write(self._descriptor, frame)
            if n_written != len(frame):
                os.ftruncate(self._descriptor, self._n_bytes)
                raise OSError("no space left on device")
        except OSError as error:
            raise self._failure(error) from error
        self._n_bytes += len(frame)

    def _failure(self, error: OSError) -> OutputError:
        return OutputError(
            f"{show_path(self.path)}: {(error.strerror or str(error)).lower()}",
            "rankings in the ledger are safe: the same command goes on from them",
        )


def _complete_bytes(descriptor: int) -> int:
    """Where the last complete frame ends: behind it is what a kill or a full disk left."""
    n_complete = n_read = 0
    frame = zstandard.ZstdDecompressor().decompressobj()
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        stream.seek(0)
        while chunk := stream.read(_CHUNK_BYTES):
            while chunk:
                try:
                    frame.decompress(chunk)
                except zstandard.ZstdError:
                    return n_complete
                n_read += len(chunk) - len(frame.unused_data)
                chunk = frame.unused_data
                if frame.eof:
                    n_complete = n_read
                    frame = zstandard.ZstdDecompressor().decompressobj()
    return n_complete
