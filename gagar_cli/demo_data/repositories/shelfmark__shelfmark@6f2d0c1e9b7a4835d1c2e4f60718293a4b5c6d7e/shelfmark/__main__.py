"""Command line: search a catalogue and print what is found."""

import sys

from shelfmark.query import parse_query
from shelfmark.records import RecordError, read_records
from shelfmark.table import render_table

COLUMNS = ("call_number", "title", "author", "year")


def main(arguments):
    if len(arguments) not in (1, 2):
        print("usage: python3 -m shelfmark CATALOGUE [QUERY]", file=sys.stderr)
        return 2
    with open(arguments[0], encoding="utf-8", newline="") as file:
        text = file.read()
    try:
        records = read_records(text)
        matches = parse_query(arguments[1] if len(arguments) == 2 else "")
    except (RecordError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    rows = [[str(getattr(record, column)) for column in COLUMNS] for record in records if matches(record)]
    print(render_table(COLUMNS, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
