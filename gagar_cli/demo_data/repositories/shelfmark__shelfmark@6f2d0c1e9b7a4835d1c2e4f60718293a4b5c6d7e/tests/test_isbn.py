import unittest

from shelfmark.isbn import isbn10_to_isbn13, is_valid_isbn13, normalize_isbn


class NormalizeTest(unittest.TestCase):
    def test_hyphens_and_blanks_are_dropped(self):
        self.assertEqual(normalize_isbn("978-0-571-15491-3"), "9780571154913")

    def test_isbn10_becomes_isbn13(self):
        self.assertEqual(normalize_isbn("0-8044-2957-X"), "9780804429573")
        self.assertEqual(isbn10_to_isbn13("0571154913"), "9780571154913")

    def test_wrong_check_digit_is_refused(self):
        self.assertFalse(is_valid_isbn13("9780571154914"))
        with self.assertRaises(ValueError):
            normalize_isbn("9780571154914")


if __name__ == "__main__":
    unittest.main()
