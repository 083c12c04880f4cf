import unittest

from shelfmark.callnumber import parse_call_number


class CallNumberTest(unittest.TestCase):
    def test_text_is_kept(self):
        for text in ("823", "823.914", "823.914 ISH", "823.914 ISH v.2"):
            self.assertEqual(str(parse_call_number(text)), text)

    def test_decimals_sort_as_text(self):
        numbers = [parse_call_number(text) for text in ("823.92", "823.914", "823", "824.1")]
        self.assertEqual([str(number) for number in sorted(numbers)], ["823", "823.914", "823.92", "824.1"])

    def test_anything_else_is_refused(self):
        with self.assertRaises(ValueError):
            parse_call_number("FIC ISH")


if __name__ == "__main__":
    unittest.main()
