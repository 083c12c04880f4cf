"""Plain JSON lines of rankings read as columns; a shortcut of `read_rankings`, never another rule.

The first line teaches a layout: these keys in this order, of the line and of its candidates. A line that its pattern
matches from end to end is one strict JSON object with just these keys, each once, its texts without escapes. Where a
line is anything else, a checksum or a reason included, or a group comes twice, the whole file goes the slow way.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from gagar_cli.errors import InputError
from gagar_cli.io.jsonl import parse_object
from gagar_cli.io.ranked_columns import hash_candidates
from gagar_cli.io.row_ids import Hash, hash_texts

_BLOCK_BYTES = 8 * 1024**2
_TEXT = r'"([^"\\\x00-\x1f]+)"'
_VALUES = {
    "group_id": _TEXT,
    "step": "(null|-?(?:0|[1-9][0-9]{0,17}))",
    "status": '("graded")',
    "trajectory_id": _TEXT,
    "tier": '"(T1|T2|T3)"',
    "rank": "(0|[1-9][0-9]{0,17})",
    "weighted_score": r"(null|[1-5](?:\.[0-9]{1,20})?)",
}
_OF_LINES = {"group_id", "step", "status", "candidates"}
_OF_CANDIDATES = {"trajectory_id", "tier", "rank", "weighted_score"}
_NEEDED = {"trajectory_id", "tier", "rank"}


class _Layout(NamedTuple):
    line: str
    """Matches a line; its last group is all the candidates."""
    of_line: tuple[str, ...]
    candidate: str
    of_candidate: tuple[str, ...]


def read_plain_lines(path: str, *, hash_: Hash = hash_texts) -> pl.DataFrame | None:
    """As `read_plain_rankings`, of JSON lines in a plain file."""
    if not Path(path).is_file():
        return None
    parts: list[pl.DataFrame] = []
    layout: _Layout | None = None
    n_lines = 0
    try:
        with Path(path).open("rb") as stream:
            for lines in _blocks(stream.fileno()):
                layout = layout or _learned(lines[0])
                table = None if layout is None else _as_table(lines, layout)
                if table is None:
                    return None
                part = hash_candidates(table, hash_)
                if parts and part["has_step"][0] != parts[0]["has_step"][0]:
                    return None
                parts.append(part)
                n_lines += len(lines)
    except (OSError, UnicodeDecodeError, pl.exceptions.PolarsError):
        return None
    if not parts:
        return None
    plain = pl.concat(parts, how="vertical_relaxed")
    return plain if plain["group"].n_unique() == n_lines else None


def _blocks(descriptor: int) -> Iterator[pl.Series]:
    """The lines of a file in blocks, without their ends; nothing where a line is longer than a block, or blank."""
    offset = 0
    while content := os.pread(descriptor, _BLOCK_BYTES, offset):
        n_bytes = content.rfind(b"\n") + 1
        if not n_bytes:
            n_bytes = len(content)
            if n_bytes == _BLOCK_BYTES:
                raise pl.exceptions.ComputeError("a line longer than a block")
        offset += n_bytes
        text = content[:n_bytes].decode().removesuffix("\n")
        yield pl.Series([text]).str.split("\n").explode()


def _learned(line: str) -> _Layout | None:
    """The layout of a line; None where it is not plain."""
    try:
        record = parse_object(line.encode(), "")
    except InputError:
        return None
    candidates = record.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    if not isinstance(first, Mapping) or not {"group_id"} <= record.keys() <= _OF_LINES:
        return None
    if not _NEEDED <= first.keys() <= _OF_CANDIDATES:
        return None
    candidate = _object([_member(name) for name in first])
    open_ = re.sub(r"\((?!\?)", "(?:", candidate)
    whole = rf'"candidates": ?\[({open_}(?:, ?{open_})*)\]'
    others = [name for name in record if name != "candidates"]
    members = [whole if name == "candidates" else _member(name) for name in record]
    return _Layout(f"^{_object(members)}$", (*record,), candidate, tuple(first)) if others else None


def _object(members: Sequence[str]) -> str:
    return r"\{" + ", ?".join(members) + r"\}"


def _member(name: object) -> str:
    return f'"{name}": ?{_VALUES[str(name)]}'


def _as_table(lines: pl.Series, layout: _Layout) -> pl.DataFrame | None:
    """A row a candidate; None where a line is not of the layout, or a value out of range."""
    found = lines.str.extract_groups(layout.line).struct.unnest()
    found.columns = [*layout.of_line]
    if found["candidates"].has_nulls():
        return None
    found = found.with_columns(pl.col("candidates").str.extract_all(layout.candidate)).explode("candidates")
    fields = found["candidates"].str.extract_groups(layout.candidate).struct.unnest()
    fields.columns = [*layout.of_candidate]
    table = fields.select(
        found["group_id"],
        _number(found, "step", pl.Int64),
        "trajectory_id",
        "tier",
        pl.col("rank").cast(pl.Int64),
        _number(fields, "weighted_score", pl.Float64),
    )
    is_known = table["step"].null_count() in (0, table.height)
    return table if is_known and table["weighted_score"].drop_nulls().is_between(1, 5).all() else None


def _number(table: pl.DataFrame, name: str, dtype: type[pl.DataType]) -> pl.Series | pl.Expr:
    if name not in table.columns or (table[name] == "null").all():
        return pl.lit(None, dtype=dtype).alias(name)
    return table[name].replace("null", None).cast(dtype)
