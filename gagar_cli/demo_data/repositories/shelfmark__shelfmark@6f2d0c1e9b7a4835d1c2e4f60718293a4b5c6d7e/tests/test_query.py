import unittest

from shelfmark.callnumber import parse_call_number
from shelfmark.query import parse_query
from shelfmark.records import Record

BOOK = Record(parse_call_number("823.914 ISH"), "The Remains of the Day", "Kazuo Ishiguro", 1989)


class QueryTest(unittest.TestCase):
    def test_all_terms_must_match(self):
        self.assertTrue(parse_query("remains ishiguro")(BOOK))
        self.assertFalse(parse_query("remains murakami")(BOOK))

    def test_fields_and_phrases(self):
        self.assertTrue(parse_query('title:"of the day" author:KAZUO')(BOOK))
        self.assertFalse(parse_query("title:kazuo")(BOOK))

    def test_years_compare(self):
        self.assertTrue(parse_query("year>=1989 year<1990")(BOOK))
        self.assertFalse(parse_query("year>1989")(BOOK))

    def test_the_empty_query_matches(self):
        self.assertTrue(parse_query("")(BOOK))


if __name__ == "__main__":
    unittest.main()
