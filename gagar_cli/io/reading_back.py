"""What `gagar show` and `gagar override` read back: one group of a rankings file, and its conversation.

A group is named by its id, and by its step where several steps have that id.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import zstandard

from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.schema import GroupKey
from gagar_cli.core.text import counted, escape_untrusted, shorten
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.rankings import latest_rankings, read_rankings
from gagar_cli.io.streams import show_path

_MAX_NAMED = 5
_FEED_BYTES = 64 * 1024
MAX_CONVERSATION_BYTES = 512 * 1024**2
"""A conversation that expands beyond this is no conversation."""


def read_ranking(path: str, group_id: str, step: int | None = None) -> GroupRanking:
    """The ranking in force of one group.

    Raises:
        InputError: the file cannot be read, or a line of it is bad.
        UsageError: it has no such group, or several.
    """
    return find_ranking(latest_rankings(read_rankings(path)), group_id, step, path)


def find_ranking(
    rankings: Mapping[GroupKey, GroupRanking], group_id: str, step: int | None, path: str
) -> GroupRanking:
    """The one that a group's name means.

    Raises:
        UsageError: there is none, or several.
    """
    found = [
        ranking
        for key, ranking in rankings.items()
        if key.group_id == group_id and (step is None or key.step == step)
    ]
    if len(found) == 1:
        return found[0]
    shown = f"{show_path(path)}: group {_show(group_id)}"
    if found:
        steps = [str(ranking.key.step) for ranking in found[:_MAX_NAMED]]
        raise UsageError(
            f"{shown} is there in {len(found)} steps", f"say which with `--step`: {_some(steps, len(found))}"
        )
    names = [_show(str(key)) for key in list(rankings)[:_MAX_NAMED]]
    at_step = "" if step is None else f" at step {step}"
    raise UsageError(
        f"{shown} is not there{at_step}",
        f"it has {counted(len(rankings), 'group')}: {_some(names, len(rankings))}",
    )


def _some(names: Sequence[str], n_all: int) -> str:
    """The first names of so many."""
    return ", ".join([*names, *(["…"] if n_all > len(names) else [])])


def conversations_path(rankings: str) -> str:
    """Where the conversations behind a rankings file are kept: beside its ledger."""
    is_table = Path(rankings).suffix.lower() in (".parquet", ".pq")
    ledger = f"{rankings}.ledger.jsonl" if is_table else rankings
    return f"{ledger}.conversations.jsonl.zst"


def read_conversation(path: str, key: GroupKey) -> list[dict[str, Any]] | None:
    """The messages of a group's last conversation; None where there is none.

    Raises:
        InputError: the file cannot be read, or is damaged before its end.
    """
    messages = None
    for record in _records(path):
        if record.get("group_id") == key.group_id and record.get("step") == key.step:
            found = record.get("messages")
            messages = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return messages


def _records(path: str) -> Iterator[dict[str, Any]]:
    name = show_path(path)
    try:
        with Path(path).open("rb") as stream:
            for number, text in enumerate(_frames(stream.read), start=1):
                try:
                    record = json.loads(text)
                except (ValueError, RecursionError) as error:
                    raise InputError(f"{name}: conversation {number} is not JSON") from error
                yield cast("dict[str, Any]", record if isinstance(record, dict) else {})
    except OSError as error:
        raise InputError(
            f"{name}: {(error.strerror or str(error)).lower()}",
            "conversations are kept beside a run's ledger",
        ) from error
    except zstandard.ZstdError as error:
        raise InputError(f"{name}: damaged zstd stream") from error


def _frames(read: Any) -> Iterator[bytes]:
    """One frame after the other, expanded; a last one that is torn is left out."""
    frame = zstandard.ZstdDecompressor().decompressobj()
    parts: list[bytes] = []
    n_bytes = 0
    while piece := read(_FEED_BYTES):
        while piece:
            part = frame.decompress(piece)
            n_bytes += len(part)
            if n_bytes > MAX_CONVERSATION_BYTES:
                raise zstandard.ZstdError("too large")
            parts.append(part)
            piece = frame.unused_data
            if frame.eof:
                yield b"".join(parts)
                frame, parts, n_bytes = zstandard.ZstdDecompressor().decompressobj(), [], 0


def _show(text: str) -> str:
    return f'"{shorten(escape_untrusted(text, keep_newlines=False), 80)}"'
