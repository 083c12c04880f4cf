"""Search: words, `field:word` and `year>=1990`; all terms must match."""

import operator
import re

_TERM = re.compile(r'(?:(title|author|note):)?(?:"([^"]*)"|(\S+))')
_YEAR = re.compile(r"year(<=|>=|<|>|=)(\d{1,4})")
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}


def parse_query(text):
    """A function that tells whether a record matches; the empty query matches all.

    >>> parse_query('author:ishiguro year>=1990')  # doctest: +ELLIPSIS
    <function ...>
    """
    tests = []
    rest = text
    for operator_text, year in _YEAR.findall(text):
        tests.append(_year_test(_COMPARE[operator_text], int(year)))
    rest = _YEAR.sub(" ", rest)
    for field, phrase, word in _TERM.findall(rest):
        wanted = (phrase or word).casefold()
        if wanted:
            tests.append(_text_test(field, wanted))
    return lambda record: all(test(record) for test in tests)


def _year_test(compare, year):
    return lambda record: record.year is not None and compare(record.year, year)


def _text_test(field, wanted):
    fields = (field,) if field else ("title", "author", "note")
    return lambda record: any(wanted in getattr(record, name).casefold() for name in fields)
