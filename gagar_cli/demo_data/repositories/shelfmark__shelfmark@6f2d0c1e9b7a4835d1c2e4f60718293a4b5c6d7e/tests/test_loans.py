import unittest
from datetime import date

from shelfmark.loans import Rules, due_date, overdue_fine, renew

RULES = Rules(holidays=frozenset({date(2024, 5, 1)}))


class DueDateTest(unittest.TestCase):
    def test_a_loan_is_due_after_three_weeks(self):
        self.assertEqual(due_date(date(2024, 3, 4), RULES), date(2024, 3, 25))

    def test_a_sunday_is_moved_to_monday(self):
        self.assertEqual(due_date(date(2024, 3, 3), RULES), date(2024, 3, 25))

    def test_a_holiday_is_moved_to_the_next_day(self):
        self.assertEqual(due_date(date(2024, 4, 10), RULES), date(2024, 5, 2))


class RenewTest(unittest.TestCase):
    def test_a_renewal_counts_from_today(self):
        self.assertEqual(renew(date(2024, 3, 25), 0, date(2024, 3, 20), RULES), date(2024, 4, 10))

    def test_overdue_and_often_renewed_loans_are_refused(self):
        with self.assertRaises(ValueError):
            renew(date(2024, 3, 25), 0, date(2024, 3, 26), RULES)
        with self.assertRaises(ValueError):
            renew(date(2024, 3, 25), 2, date(2024, 3, 20), RULES)


class FineTest(unittest.TestCase):
    def test_days_of_grace_are_free(self):
        self.assertEqual(overdue_fine(date(2024, 3, 25), date(2024, 3, 27), RULES), 0)

    def test_open_days_count(self):
        self.assertEqual(overdue_fine(date(2024, 3, 25), date(2024, 4, 1), RULES), 6 * 20)

    def test_the_fine_is_capped(self):
        self.assertEqual(overdue_fine(date(2024, 1, 2), date(2024, 12, 31), RULES), 1000)


if __name__ == "__main__":
    unittest.main()
