"""The Parquet form of rankings: one flat row a candidate.

Scores and flags are columns (`score_approach`, `flag_regression`), so that a table can be filtered on them; findings
and the grader are JSON text. On reading, `scores` and `flags` may also be structs. Rows of one group need not be
adjacent. A group without candidates is one row with a null `trajectory_id`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from gagar_cli.core.ranking import FLAGS, GroupRanking
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError
from gagar_cli.io.jsonl import dump_line, parse_object, show_value
from gagar_cli.io.mistaken import not_a_ranking
from gagar_cli.io.ranking_records import ranking_from_record, ranking_to_record
from gagar_cli.io.records import placed
from gagar_cli.io.streams import show_path
from gagar_cli.io.writers import write_atomically

_GROUP_FIELDS = ("step", "group_id", "status", "reason", "grader", "input_digest", "config_digest")
_CANDIDATE_FIELDS = (
    "trajectory_id", "tier", "rank", "scores", "weighted_score", "flags", "findings", "unproven", "rationale",
)  # fmt: skip
_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "step": pl.Int64,
    "group_id": pl.String,
    "status": pl.String,
    "reason": pl.String,
    "trajectory_id": pl.String,
    "tier": pl.String,
    "rank": pl.Int64,
    **{f"score_{name}": pl.Int8 for name in DIMENSIONS},
    "weighted_score": pl.Float64,
    **{f"flag_{name}": pl.Boolean for name in FLAGS},
    "findings": pl.String,
    "unproven": pl.List(pl.String),
    "rationale": pl.String,
    "grader": pl.String,
    "input_digest": pl.String,
    "config_digest": pl.String,
}


def write_rankings_parquet(path: str, rankings: Iterable[GroupRanking]) -> None:
    """Rankings as a flat table, whole or not at all.

    Raises:
        OutputError: it cannot be written.
    """
    known = list(rankings)
    scored = dict.fromkeys(name for ranking in known for one in ranking.candidates for name in one.scores)
    more = {f"score_{name}": pl.Int8 for name in scored if name not in DIMENSIONS}
    schema = {**_SCHEMA, **more}
    rows = [row for ranking in known for row in _rows(ranking, schema)]
    with write_atomically(path) as stream:
        pl.DataFrame(rows, schema=schema, orient="row").write_parquet(stream, compression="zstd")


def read_ranking_table(path: str) -> Iterator[GroupRanking]:
    """The rankings of a table, in the order in which their groups first appear.

    Raises:
        InputError: it cannot be read, or a row is no valid candidate.
    """
    name = show_path(path)
    groups: dict[tuple[object, object], tuple[int, dict[str, object], list[object]]] = {}
    for number, row in enumerate(_read_rows(path), start=1):
        try:
            if row.keys().isdisjoint(("tier", "status")):
                raise not_a_ranking(row)
            shared = _group_fields(row)
            candidate = _candidate_fields(row)
        except InputError as error:
            raise placed(error, f"{name}:{number}") from error
        key = (json.dumps(shared["step"]), json.dumps(shared["group_id"]))
        first, fields, candidates = groups.setdefault(key, (number, shared, []))
        for field in ("status", "reason"):
            if fields[field] != shared[field]:
                message = f"{field} is {show_value(shared[field])}, in row {first} of the group {show_value(fields[field])}"
                raise InputError(f"{name}:{number}: {message}")
        if candidate["trajectory_id"] is not None or shared["status"] == "graded":
            candidates.append(candidate)
    for first, fields, candidates in groups.values():
        try:
            yield ranking_from_record({**fields, "candidates": candidates})
        except InputError as error:
            raise placed(error, f"{name}:{first}") from error


def _rows(ranking: GroupRanking, columns: Iterable[str]) -> Iterator[tuple[object, ...]]:
    record = ranking_to_record(ranking)
    shared = {**record, "grader": _json_text(record["grader"])}
    for candidate in cast("list[dict[str, object]]", record["candidates"]) or [{}]:
        scores = cast("Mapping[str, object]", candidate.get("scores", {}))
        flags = cast("Mapping[str, object]", candidate.get("flags", {}))
        fields = {
            **shared,
            **candidate,
            **{f"score_{name}": score for name, score in scores.items()},
            **{f"flag_{name}": flags.get(name) for name in FLAGS},
            "findings": _json_text(candidate.get("findings", [])),
        }
        yield tuple(fields.get(column) for column in columns)


def _read_rows(path: str) -> Iterator[dict[str, object]]:
    try:
        with pq.ParquetFile(path) as table:
            for batch in table.iter_batches(1024):
                yield from batch.to_pylist(maps_as_pydicts="strict")
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        detail = shorten(escape_untrusted(str(error), keep_newlines=False), 200)
        raise InputError(f"{show_path(path)}: cannot be read as Parquet: {detail}") from error


def _group_fields(row: Mapping[str, object]) -> dict[str, object]:
    fields = {name: row.get(name) for name in _GROUP_FIELDS}
    status = fields["status"]
    return {
        **fields,
        "status": "graded" if status is None else status,
        "grader": _from_json(row.get("grader"), "grader"),
    }


def _candidate_fields(row: Mapping[str, object]) -> dict[str, object]:
    fields = {name: row.get(name) for name in _CANDIDATE_FIELDS}
    fields["findings"] = _from_json(fields["findings"], "findings")
    if fields["scores"] is None:
        fields["scores"] = {
            name.removeprefix("score_"): score
            for name, score in row.items()
            if name.startswith("score_") and score is not None
        }
    if fields["flags"] is None:
        fields["flags"] = {name: row.get(f"flag_{name}") for name in FLAGS}
    return fields


def _from_json(value: object, name: str) -> object:
    """The value of a column that holds JSON text, or the value itself where it is nested already."""
    if not isinstance(value, str):
        return value
    try:
        return parse_object(b'{"value":' + value.encode() + b"}", "")["value"]
    except InputError as error:
        raise InputError(f"{name} is {show_value(value)}, expected JSON text") from error


def _json_text(value: object) -> str:
    return dump_line({"value": value})[len(b'{"value": ') : -2].decode()
