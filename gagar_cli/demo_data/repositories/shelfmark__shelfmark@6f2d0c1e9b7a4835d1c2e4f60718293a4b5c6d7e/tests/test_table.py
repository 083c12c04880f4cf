import unittest

from shelfmark.table import render_pairs, render_table
from shelfmark.text import display_width, shorten


class TableTest(unittest.TestCase):
    def test_columns_are_aligned(self):
        table = render_table(["title", "year"], [["Cosmos", "1980"], ["Kafka on the Shore", "2002"]])
        self.assertEqual(
            table.split("\n"),
            [
                "title               year",
                "------------------  ----",
                "Cosmos              1980",
                "Kafka on the Shore  2002",
            ],
        )

    def test_long_cells_are_cut(self):
        last = render_table(["title"], [["x" * 50]]).split("\n")[-1]
        self.assertEqual(last, "x" * 39 + "…")

    def test_pairs_share_a_column(self):
        self.assertEqual(render_pairs([("due", "today"), ("renewals", "2")]), "     due: today\nrenewals: 2")


class TextTest(unittest.TestCase):
    def test_wide_characters_take_two_cells(self):
        self.assertEqual(display_width("日本"), 4)
        self.assertEqual(display_width("e\u0301"), 1)

    def test_shorten_counts_cells(self):
        self.assertEqual(shorten("日本文学", 5), "日本…")


if __name__ == "__main__":
    unittest.main()
