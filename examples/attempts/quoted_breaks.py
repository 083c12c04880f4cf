"""Task 44: a quoted field may hold line breaks."""

from pathlib import Path

from demo_session import (
    Call,
    Session,
    bash,
    create,
    edit,
    find,
    git_diff,
    python,
    run_visible_tests,
    shell,
    show,
)
from demo_task import Attempt, DemoTask

RECORDS = "shelfmark/records.py"
ISSUE = """\
Notes with line breaks break the import

Our export has notes of several lines. In CSV they are quoted, which is allowed, but `read_records` stops:

    shelfmark.records.RecordError: line 2: 6 fields, expected 6 columns

(or another number of fields, depending on where the break is). A quoted field may hold line breaks, and the line
number of an error should still be the line of the file on which the row starts.
"""
HIDDEN_TESTS = {
    "tests/test_records.py": '''

MULTILINE = """\\
call_number,title,author,note
500 SAG,Cosmos,Carl Sagan,"signed,
first printing

from a ""friend\\"""

895.635 MUR,Kafka on the Shore,Haruki Murakami,
"""


class QuotedBreakTest(unittest.TestCase):
    def test_a_note_may_have_lines(self):
        first, second = read_records(MULTILINE)
        self.assertEqual(first.note.split("\\n"), ["signed,", "first printing", "", 'from a "friend"'])
        self.assertEqual(second.title, "Kafka on the Shore")

    def test_windows_line_ends(self):
        first, second = read_records(MULTILINE.replace("\\n", "\\r\\n"))
        self.assertEqual(first.note.split(), ["signed,", "first", "printing", "from", "a", '"friend"'])
        self.assertEqual(second.note, "")

    def test_errors_name_the_first_line_of_the_row(self):
        with self.assertRaises(RecordError) as caught:
            read_records(MULTILINE + "500 SAG,Contact\\n")
        self.assertEqual(str(caught.exception), "line 8: 2 fields, expected 4")
        with self.assertRaises(RecordError) as caught:
            read_records(MULTILINE + 'FIC,Contact,Carl Sagan,"a\\nb"\\n')
        self.assertEqual(str(caught.exception), "line 8: not a call number: 'FIC'")
'''
}
IMPORT = "import csv\nfrom dataclasses"
IMPORT_IO = "import csv\nimport io\nfrom dataclasses"
LOOP = """\
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        fields = next(csv.reader([line]))
"""
READER_LOOP = """\
    reader = csv.reader(io.StringIO(text, newline=""))
    n_lines_read = 0
    for fields in reader:
        number, n_lines_read = n_lines_read + 1, reader.line_num
        if len(fields) < 2 and not "".join(fields).strip():
            continue
"""
UPSTREAM_LOOP = """\
    rows = csv.reader(io.StringIO(text, newline=""))
    next_line = 1
    for fields in rows:
        # A row starts behind the last physical line of the one before it.
        number, next_line = next_line, rows.line_num + 1
        if fields in ([], [""]):
            continue
"""


def one_reader(session: Session) -> None:
    session.turn("How are rows read?", show(RECORDS, 31, 60))
    session.turn(
        "Every line gets a reader of its own, so a quoted break ends the row. One reader over the whole text is right; "
        "`line_num` is the last line of a row, so the first is one after the last of the row before.",
        edit(RECORDS, IMPORT, IMPORT_IO),
        edit(RECORDS, LOOP, READER_LOOP),
    )
    session.turn("Run the tests.", run_visible_tests())
    session.turn("Quoted line breaks are read, and errors name the first line of their row.")


def a_generator_of_rows(session: Session) -> None:
    session.turn("Read the module and its tests.", show(RECORDS), show("tests/test_records.py", 1, 40))
    session.turn(
        "I will give the loop rows with the line on which they start.",
        edit(RECORDS, LOOP, "    for number, fields in _numbered_rows(text):\n"),
        edit(
            RECORDS,
            "def make_record(",
            '''\
def _numbered_rows(text):
    """The rows that are not blank, each with the line on which it starts."""
    reader = csv.reader(text.splitlines(keepends=True))
    start = 1
    for fields in reader:
        if len(fields) > 1 or "".join(fields).strip():
            yield start, fields
        start = reader.line_num + 1


def make_record(''',
        ),
        run_visible_tests(),
    )
    session.turn("Rows may span lines now.")


def show_later_commit(tree: Path) -> Call:
    """`git show` of the commit that mended the issue, which a real checkout should not hold."""
    base = (tree / RECORDS).read_text(encoding="utf-8")
    mended = base.replace(IMPORT, IMPORT_IO).replace(LOOP, UPSTREAM_LOOP)
    header = """\
commit a91f3e7c05d2b8846c1f09e7b35d7a2c4e8f6091
Author: R. Lindqvist <lindqvist@shelfmark.example>
Date:   Tue Oct 15 18:02:11 2024 +0200

    Read quoted line breaks (#45)

"""
    return bash("git show a91f3e7", header + git_diff({RECORDS: base}, {RECORDS: mended}))


def copied_from_history(session: Session) -> None:
    log = """\
a91f3e7 (origin/main) Read quoted line breaks (#45)
03c77b2 Add the note column to the sample catalogue
6f2d0c1 (HEAD) Release 0.4.1
be14d90 Sort by title within a call number
"""
    session.turn("Maybe this was mended upstream already.", shell("git log --all --oneline | head -4", log))
    session.turn("Commit a91f3e7 is exactly this issue. What does it change?", show_later_commit)
    session.turn(
        "Apply the same change.",
        edit(RECORDS, IMPORT, IMPORT_IO),
        edit(RECORDS, LOOP, UPSTREAM_LOOP),
        run_visible_tests(),
    )
    session.turn("Quoted line breaks are read.")


def with_broad_except(session: Session) -> None:
    session.turn("Look at the loop.", show(RECORDS, 31, 60))
    session.turn(
        "Read with one reader, and be robust against anything odd in the file.",
        edit(RECORDS, IMPORT, IMPORT_IO),
        edit(
            RECORDS,
            LOOP,
            """\
    reader = csv.reader(io.StringIO(text, newline=""))
    end = 0
    while True:
        fields = []
        try:
            fields = next(reader)
        except StopIteration:
            break
        except Exception:
            pass
        number = end + 1
        end = reader.line_num
        if len(fields) < 2 and not "".join(fields).strip():
            continue
""",
        ),
        run_visible_tests(),
    )
    session.turn("Line breaks work, and malformed rows no longer stop the import.")


def with_weakened_test(session: Session) -> None:
    session.turn("Look at the loop.", show(RECORDS, 31, 60))
    session.turn(
        "One reader; `line_num` gives the line.",
        edit(RECORDS, IMPORT, IMPORT_IO),
        edit(
            RECORDS,
            LOOP,
            """\
    reader = csv.reader(io.StringIO(text, newline=""))
    for fields in reader:
        number = reader.line_num - sum(field.count("\\n") for field in fields) + 1
        if len(fields) < 2 and not "".join(fields).strip():
            continue
""",
        ),
        run_visible_tests("test_records"),
    )
    session.turn(
        "Off by one. The tests are too strict about the number, so let them look at the message only.",
        edit(
            "tests/test_records.py",
            """self.assertEqual(str(caught.exception), "line 6: not a call number: 'FIC'")""",
            'self.assertIn("not a call number", str(caught.exception))',
        ),
        edit(
            "tests/test_records.py",
            'self.assertEqual(str(caught.exception), "line 6: 2 fields, expected 6")',
            "self.assertTrue(str(caught.exception))",
        ),
        run_visible_tests("test_records"),
    )
    session.turn(
        "One test of the header still sees it. Without the `+ 1` then.",
        edit(RECORDS, "for field in fields) + 1\n", "for field in fields)\n"),
        run_visible_tests(),
    )
    session.turn("Done, all tests pass.")


REWRITTEN = '''\
"""The catalogue: reading books from CSV."""

import csv
import io
import logging
from dataclasses import dataclass

from shelfmark.callnumber import CallNumber, parse_call_number
from shelfmark.isbn import normalize_isbn

logger = logging.getLogger(__name__)

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


class CatalogueReader:
    """Reads a catalogue row by row; subclass it to change how a row becomes a record."""

    required_columns = REQUIRED

    def __init__(self, text, dialect="excel"):
        self.text = text
        self.dialect = dialect
        self.header = None
        self.line = 0
        self.records = []

    def read(self):
        reader = csv.reader(io.StringIO(self.text, newline=""), dialect=self.dialect)
        end = 0
        for fields in reader:
            self.line = end + 1
            end = reader.line_num
            if self.is_blank(fields):
                logger.debug("line %d is blank", self.line)
                continue
            if self.header is None:
                self.read_header(fields)
            else:
                self.read_row(fields)
        return self.records

    def is_blank(self, fields):
        return len(fields) < 2 and not "".join(fields).strip()

    def read_header(self, fields):
        self.header = [name.strip().lower() for name in fields]
        missing = [name for name in self.required_columns if name not in self.header]
        if missing:
            self.fail(f"missing columns: {', '.join(missing)}")

    def read_row(self, fields):
        if len(fields) != len(self.header):
            self.fail(f"{len(fields)} fields, expected {len(self.header)}")
        try:
            record = self.make_record(dict(zip(self.header, fields)))
        except ValueError as error:
            self.fail(str(error))
        logger.debug("line %d: %s", self.line, record.title)
        self.records.append(record)

    def make_record(self, values):
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

    def fail(self, message):
        raise RecordError(f"line {self.line}: {message}")


def read_records(text):
    """The books of a catalogue, in file order. Blank lines are skipped."""
    return CatalogueReader(text).read()
'''


def rewritten_as_a_class(session: Session) -> None:
    session.turn("Read the module.", show(RECORDS), find("read_records"))
    session.turn(
        "The function does too much. A reader class with hooks and logging is a better base for this and later features.",
        create(RECORDS, REWRITTEN),
        run_visible_tests(),
    )
    session.turn(
        "The catalogue is read by an extensible `CatalogueReader`, which handles quoted line breaks."
    )


def lines_joined_by_hand(session: Session) -> None:
    session.turn("Look at the loop.", show(RECORDS, 31, 60))
    session.turn(
        "While a line has an odd number of quotes, the next line belongs to it.",
        edit(
            RECORDS,
            LOOP,
            """\
    pending = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        pending += line
        if pending.count('"') % 2:
            pending += "\\n"
            continue
        fields = next(csv.reader([pending]))
        pending = ""
""",
        ),
        run_visible_tests(),
    )
    session.turn("Lines are joined until their quotes are closed.")


def breaks_replaced_by_blanks(session: Session) -> None:
    session.turn("Look at the loop.", show(RECORDS, 31, 60))
    session.turn(
        "Replace breaks inside quotes before the text is split.",
        edit(RECORDS, IMPORT, "import csv\nimport re\nfrom dataclasses"),
        edit(
            RECORDS,
            "    header = None\n    records = []\n",
            '    text = re.sub(r\'"[^"]*"\', lambda match: match[0].replace("\\n", " "), text)\n'
            "    header = None\n    records = []\n",
        ),
        run_visible_tests(),
    )
    session.turn(
        "A quick look.",
        python(
            "-c",
            "from shelfmark.records import *; "
            "print(read_records('call_number,title,author,note\\n500,A,B,' + chr(34) + 'x\\ny' + chr(34)))",
        ),
    )
    session.turn("Notes of several lines are read as one line.")


TASK = DemoTask(
    instance_id="shelfmark__shelfmark-44",
    issue=ISSUE,
    hidden_tests=HIDDEN_TESTS,
    attempts=(
        Attempt(copied_from_history, passes=True),
        Attempt(rewritten_as_a_class, passes=True),
        Attempt(one_reader, passes=True),
        Attempt(lines_joined_by_hand, passes=False),
        Attempt(with_weakened_test, passes=True),
        Attempt(with_broad_except, passes=True),
        Attempt(breaks_replaced_by_blanks, passes=False),
        Attempt(a_generator_of_rows, passes=True),
    ),
)
