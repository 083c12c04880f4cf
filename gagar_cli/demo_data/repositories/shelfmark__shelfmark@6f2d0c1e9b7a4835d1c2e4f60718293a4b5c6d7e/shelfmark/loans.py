"""Loans: when they are due, and what an overdue one costs."""

from dataclasses import dataclass, field
from datetime import date, timedelta

SUNDAY = 6


@dataclass(frozen=True)
class Rules:
    """What a library decides for itself. Money is in cents."""

    loan_days: int = 21
    max_renewals: int = 2
    grace_days: int = 2
    fine_per_day: int = 20
    max_fine: int = 1000
    holidays: frozenset[date] = field(default_factory=frozenset)


def is_open(day, rules):
    """Whether the desk is open on that day."""
    return day.weekday() != SUNDAY and day not in rules.holidays


def due_date(lent_on, rules):
    """The day on which a loan is due: never a day on which the library is closed."""
    due = lent_on + timedelta(days=rules.loan_days)
    if not is_open(due, rules):
        due += timedelta(days=1)
    return due


def renew(due, n_renewals, today, rules):
    """The new due date of a loan; raises ValueError if it may not be renewed."""
    if n_renewals >= rules.max_renewals:
        raise ValueError(f"renewed {n_renewals} times already")
    if today > due:
        raise ValueError("overdue loans cannot be renewed")
    return due_date(today, rules)


def overdue_fine(due, returned_on, rules):
    """The fine in cents: days on which the library was open count, after some days of grace."""
    n_days = 0
    day = due + timedelta(days=1)
    while day <= returned_on:
        n_days += is_open(day, rules)
        day += timedelta(days=1)
    if n_days <= rules.grace_days:
        return 0
    return min(n_days * rules.fine_per_day, rules.max_fine)
