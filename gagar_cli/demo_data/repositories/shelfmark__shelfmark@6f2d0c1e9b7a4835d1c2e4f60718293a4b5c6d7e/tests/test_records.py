import unittest

from shelfmark.records import RecordError, read_records

CATALOGUE = """\
call_number,title,author,year,isbn,note
823.914 ISH,The Remains of the Day,Kazuo Ishiguro,1989,0-571-15491-3,
895.635 MUR,"Kafka on the Shore",Haruki Murakami,2002,,"signed, first printing"

500 SAG,Cosmos,Carl Sagan,,,
"""


class ReadRecordsTest(unittest.TestCase):
    def test_rows_become_records(self):
        first, second, third = read_records(CATALOGUE)
        self.assertEqual((first.title, first.year, first.isbn), ("The Remains of the Day", 1989, "9780571154913"))
        self.assertEqual(second.note, "signed, first printing")
        self.assertIsNone(third.year)

    def test_an_error_names_the_line(self):
        with self.assertRaises(RecordError) as caught:
            read_records(CATALOGUE + "FIC,Nothing,Nobody,,,\n")
        self.assertEqual(str(caught.exception), "line 6: not a call number: 'FIC'")

    def test_a_short_row_is_an_error(self):
        with self.assertRaises(RecordError) as caught:
            read_records(CATALOGUE + "500 SAG,Contact\n")
        self.assertEqual(str(caught.exception), "line 6: 2 fields, expected 6")

    def test_missing_columns_are_named(self):
        with self.assertRaises(RecordError) as caught:
            read_records("title,year\nCosmos,1980\n")
        self.assertEqual(str(caught.exception), "line 1: missing columns: call_number, author")


if __name__ == "__main__":
    unittest.main()
