"""Tables about dumps: what a dump holds, what is wrong with it, which formats there are."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gagar_cli.tables import key_value_table, rows_table

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from gagar_cli.convert import ConvertResult
    from gagar_cli.head import HeadResult
    from gagar_cli.validate import ValidateResult


def convert_table(result: "ConvertResult") -> "Table":
    """What was written."""
    return key_value_table(
        "Conversion",
        [
            ("records", f"{result.n_records:,} ({result.n_passed:,} passed, {result.n_invalid:,} invalid)"),
            ("groups", f"{result.n_groups:,}, by {result.report.group_id_source}"),
            ("bad records left out", f"{result.report.n_bad_records:,}"),
            ("not in this dump", ", ".join(result.report.missing_columns) or "-"),
        ],
    )


def validate_table(result: "ValidateResult") -> "Group":
    """What is wrong, by kind, and what the dump holds."""
    from rich.console import Group

    held = key_value_table(
        "Validation",
        [
            ("records", _records(result)),
            ("groups", f"{result.n_groups:,}, by {result.group_id_source}" if result.n_groups else "0"),
            ("reward contradicts resolved", f"{result.n_disagree:,}"),
            ("not in this dump", ", ".join(result.missing_columns) or "-"),
            ("problems", f"{result.n_problems:,}"),
        ],
    )
    if not result.kinds:
        return Group(held)
    kinds = rows_table(
        "Problems by kind", ("count", "kind"), [(f"{n:,}", kind) for kind, n in result.kinds], numeric=(0,)
    )
    return Group(held, kinds)


def head_table(result: "HeadResult") -> "Group":
    """What the dump holds."""
    from rich.console import Group

    n_more = result.n_files - len(result.files)
    files = rows_table(
        "Files", ("format", "path", "why"), [(name, path, why) for path, name, why in result.files]
    )
    sizes = ", ".join(f"{count:,} of {size:,}" for size, count in result.group_sizes)
    held = key_value_table(
        "Dump",
        [
            ("files", f"{result.n_files:,}" + (f" ({n_more:,} not shown)" if n_more else "")),
            ("records", f"{result.n_records:,} ({result.n_passed:,} passed, {_invalid(result)})"),
            ("groups", f"{result.n_groups:,}, by {result.group_id_source}"),
            ("group sizes", sizes),
            ("not in this dump", ", ".join(result.missing_columns) or "-"),
        ],
    )
    columns = rows_table("Columns of the first records", ("name", "holds"), result.columns)
    records = [
        key_value_table(
            f"Record {number}",
            [(name, json.dumps(value, ensure_ascii=False)) for name, value in record.items()],
        )
        for number, record in enumerate(result.records, 1)
    ]
    return Group(files, held, columns, *records)


def formats_table(records: Mapping[str, Mapping[str, object]]) -> "Table":
    """All formats, one a row."""
    rows = [(name, str(each["role"]), str(each["title"])) for name, each in records.items()]
    return rows_table("Formats", ("name", "holds", "what"), rows)


def mapping_table(name: str, record: Mapping[str, object]) -> "Table":
    """How one format maps to the canonical record."""
    mapping = record["mapping"]
    rows = [
        ("what", str(record["title"])),
        ("on disk", str(record["container"])),
        ("holds", str(record["role"])),
    ]
    rows += (
        [(str(field), str(source)) for field, source in mapping.items()]
        if isinstance(mapping, Mapping)
        else []
    )
    if record["needs_join"]:
        rows.append(("to be joined", str(record["needs_join"])))
    return key_value_table(name, rows)


def _records(result: "ValidateResult") -> str:
    """How many there are, bad ones among them: a record is one problem, and a dump that cannot be read has none."""
    n_all = result.n_records + result.n_bad_records
    n_bad = min(result.n_problems, n_all)
    bad = f"{n_bad:,} bad, " if n_bad else ""
    return f"{n_all:,} ({bad}{result.n_passed:,} passed, {_invalid(result)})"


def _invalid(result: "ValidateResult | HeadResult") -> str:
    reasons = ", ".join(f"{name} {count:,}" for name, count in result.invalid_reasons)
    return f"{result.n_invalid:,} invalid" + (f": {reasons}" if reasons else "")
