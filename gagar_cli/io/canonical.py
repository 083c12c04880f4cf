"""The canonical record as it is written: a fixed schema, so that no reader has to infer one from the first rows.

What has no field of its own, or another type than its field, goes to `raw` as JSON text. `resolved` and `reward` are
columns only where the dump has them: a column of nulls would say that nothing was evaluated.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from gagar_cli.core.messages import chat_messages, json_text
from gagar_cli.io.records import ALIASES, CANONICAL_FIELDS, MISSING, Fields, from_json_text

SCHEMA_VERSION = 1
_CALL = pa.struct([("id", pa.string()), ("name", pa.string()), ("arguments", pa.large_string())])
_MESSAGE = pa.struct(
    [
        ("role", pa.string()),
        ("content", pa.large_string()),
        ("reasoning_content", pa.large_string()),
        ("name", pa.string()),
        ("tool_call_id", pa.string()),
        ("tool_calls", pa.list_(_CALL)),
        ("extra", pa.large_string()),
    ]
)
_TYPES: dict[str, Any] = {
    "schema_version": pa.int32(),
    **dict.fromkeys(("group_id", "group_id_source", "instance_id", "trajectory_id"), pa.string()),
    **dict.fromkeys(("attempt", "segment"), pa.int32()),
    "step": pa.int64(),
    **dict.fromkeys(("policy_version", "model_name_or_path", "agent_name", "agent_version"), pa.string()),
    **dict.fromkeys(
        ("repo", "base_commit", "version", "docker_image", "workdir", "test_command"), pa.string()
    ),
    **dict.fromkeys(("problem_statement", "test_patch", "gold_patch"), pa.large_string()),
    **dict.fromkeys(("FAIL_TO_PASS", "PASS_TO_PASS"), pa.list_(pa.string())),
    "messages": pa.list_(_MESSAGE),
    **dict.fromkeys(("tools", "model_patch"), pa.large_string()),
    "reward": pa.float64(),
    "rewards": pa.map_(pa.string(), pa.float64()),
    "resolved": pa.bool_(),
    **dict.fromkeys(("tests_status", "test_output"), pa.large_string()),
    **dict.fromkeys(("exit_status", "termination"), pa.string()),
    **dict.fromkeys(("is_truncated", "infra_failure"), pa.bool_()),
    "infra_failure_reason": pa.string(),
    "mask_sample": pa.bool_(),
    "n_turns": pa.int32(),
    **dict.fromkeys(("n_input_tokens", "n_output_tokens"), pa.int64()),
    **dict.fromkeys(("cost_usd", "duration_s", "advantage"), pa.float64()),
    **dict.fromkeys(("source_format", "source_path"), pa.string()),
    "source_row": pa.int64(),
    "raw": pa.large_string(),
}
VERDICTS = ("reward", "resolved")
_PROVENANCE = ("schema_version", "group_id_source", "source_format", "source_path", "source_row")
"""What an earlier conversion knew better."""
_ROW_GROUP_ROWS = 256
_ROW_GROUP_BYTES = 64 * 1024**2


def schema_without(missing: Collection[str]) -> Any:
    """The Arrow schema, without those of `reward` and `resolved` that no record has."""
    return pa.schema(
        [(name, type_) for name, type_ in _TYPES.items() if name not in VERDICTS or name not in missing]
    )


def canonical_record(
    record: Mapping[str, object], fields: Fields, settled: Mapping[str, object], missing: Collection[str]
) -> dict[str, Any]:
    """One record in the canonical form; `settled` holds the ids and the place that the index knows.

    Nulls are left out, but for those of `reward` and `resolved`, which say that there is no verdict.
    """
    made: dict[str, Any] = {"schema_version": SCHEMA_VERSION} | {
        name: value for name, value in settled.items() if value is not None
    }
    rest = dict(record)
    for name in CANONICAL_FIELDS:
        value = fields.find(record, name)
        if value is MISSING:
            continue
        # A mapped path inside an object leaves the object whole, and what has the field's own name is something else.
        own = (fields.mapping[name],) if name in fields.mapping else (name, ALIASES.get(name, name))
        used = next((each for each in own if each in rest), None)
        if used is not None:
            del rest[used]
        if name not in made:
            _put(made, rest, name, value)
    for name in [name for name in rest if name in _TYPES and name != "raw"]:
        if name not in made or name in _PROVENANCE:
            _put(made, rest, name, rest.pop(name))
    for name in VERDICTS:
        if name not in missing:
            made.setdefault(name, None)
    earlier = rest.pop("raw", None)
    raw = _merged(earlier, {name: value for name, value in rest.items() if value is not None})
    if raw is not None:
        made["raw"] = raw
    return {name: made[name] for name in _TYPES if name in made}


def write_parquet(stream: BinaryIO, records: Iterable[Mapping[str, Any]], missing: Collection[str]) -> int:
    """Canonical records as Parquet with small row groups; how many there were."""
    schema = schema_without(missing)
    n_records = 0
    with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for batch in _batches(records):
            writer.write_table(pa.Table.from_pylist([_arrow_ready(each) for each in batch], schema=schema))
            n_records += len(batch)
    return n_records


def _batches(records: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    batch: list[Mapping[str, Any]] = []
    n_bytes = 0
    for record in records:
        batch.append(record)
        n_bytes += len(json.dumps(record, default=str))
        if len(batch) >= _ROW_GROUP_ROWS or n_bytes >= _ROW_GROUP_BYTES:
            yield batch
            batch, n_bytes = [], 0
    if batch:
        yield batch


def _arrow_ready(record: Mapping[str, Any]) -> dict[str, Any]:
    rewards = record.get("rewards")
    return dict(record) | ({"rewards": list(rewards.items())} if isinstance(rewards, Mapping) else {})


def _put(made: dict[str, Any], rest: dict[str, Any], name: str, value: object) -> None:
    """Put a value under its name, or back into the rest where its type does not fit."""
    if value is None:
        if name in VERDICTS:
            made[name] = None
        return
    if name == "messages":
        entries = from_json_text(value) if isinstance(value, str) else value
        if isinstance(entries, list):
            made[name] = [_plain(each) for each in chat_messages(entries)]
            return
    fitted = (
        float(value) if name == "reward" and isinstance(value, bool) else _fitted(_TYPES.get(name), value)
    )
    if fitted is None:
        rest[name] = value
    else:
        made[name] = fitted


def _fitted(type_: Any, value: object) -> Any:
    """The value as its column takes it, None where it does not."""
    if type_ is None:
        return None
    if pa.types.is_boolean(type_):
        return value if isinstance(value, bool) else None
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        is_storable = isinstance(value, str) and value.encode(errors="ignore").decode() == value
        return value if is_storable else None
    if isinstance(value, bool):
        return None
    if pa.types.is_integer(type_):
        limit = 2 ** (type_.bit_width - 1)
        return value if isinstance(value, int) and -limit <= value < limit else None
    if pa.types.is_floating(type_):
        return float(value) if isinstance(value, int | float) else None
    if pa.types.is_map(type_):
        return _numbers(value)
    return value if isinstance(value, list) and all(isinstance(each, str) for each in value) else None


def _numbers(value: object) -> dict[str, float] | None:
    """Named numbers, from an object or from the pairs that Parquet gives back."""
    pairs: dict[str, Any] = {}
    if isinstance(value, Mapping):
        pairs = dict(value)
    elif isinstance(value, list) and all(isinstance(each, list | tuple) and len(each) == 2 for each in value):
        pairs = {str(name): number for name, number in value}
    is_numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in pairs.values())
    return {name: float(each) for name, each in pairs.items()} if pairs and is_numbers else None


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as both JSON and Parquet give it back: without nulls, text that can be stored."""
    made = {name: value for name, value in message.items() if value is not None}
    if "tool_calls" in made:
        made["tool_calls"] = [
            {name: _storable(value) for name, value in call.items() if value is not None}
            for call in made["tool_calls"]
        ]
    return {name: _storable(value) if isinstance(value, str) else value for name, value in made.items()}


def _storable(text: str) -> str:
    # A lone surrogate has no place in Arrow text: it stays visible as an escape.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _merged(earlier: object, more: Mapping[str, object]) -> str | None:
    """What is left of a record, with what an earlier conversion left."""
    if earlier is None:
        return json_text(more) if more else None
    value = from_json_text(earlier) if isinstance(earlier, str) else earlier
    if not more and isinstance(earlier, str):
        return earlier
    kept: dict[str, object] = dict(value) if isinstance(value, Mapping) else {"raw": value}
    return json_text(kept | dict(more))


__all__ = ["SCHEMA_VERSION", "canonical_record", "schema_without", "write_parquet"]
