"""The catalogue: one CSV row a book, with a header row."""

import csv
from dataclasses import dataclass

from shelfmark.callnumber import CallNumber, parse_call_number
from shelfmark.isbn import normalize_isbn

REQUIRED = ("call_number", "title", "author")


class RecordError(Exception):
    """A row that cannot be read; the message starts with the line of the file on which the row starts."""


@dataclass(frozen=True)
class Record:
    """One book."""

    call_number: CallNumber
    title: str
    author: str
    year: int | None = None
    isbn: str | None = None
    note: str = ""


def read_records(text):
    """The books of a catalogue, in file order. Blank lines are skipped.

    Raises RecordError with the line number for a row that cannot be read.
    """
    header = None
    records = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        fields = next(csv.reader([line]))
        if header is None:
            header = [name.strip().lower() for name in fields]
            missing = [name for name in REQUIRED if name not in header]
            if missing:
                raise RecordError(f"line {number}: missing columns: {', '.join(missing)}")
            continue
        if len(fields) != len(header):
            raise RecordError(f"line {number}: {len(fields)} fields, expected {len(header)}")
        try:
            records.append(make_record(dict(zip(header, fields))))
        except ValueError as error:
            raise RecordError(f"line {number}: {error}") from error
    return records


def make_record(values):
    """A record from column names and texts; raises ValueError for a value out of form."""
    year = values.get("year", "").strip()
    isbn = values.get("isbn", "").strip()
    return Record(
        call_number=parse_call_number(values["call_number"]),
        title=values["title"].strip(),
        author=values["author"].strip(),
        year=int(year) if year else None,
        isbn=normalize_isbn(isbn) if isbn else None,
        note=values.get("note", "").strip(),
    )
