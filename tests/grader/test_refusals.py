"""The wait that an endpoint asks for, in whatever form."""

import email.utils
import time

import httpx2
import pytest

from gagar_cli.grader.refusals import MAX_RETRY_AFTER_SECONDS, retry_after_seconds


def wait(**headers: str) -> float | None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return retry_after_seconds(httpx2.Response(429, headers=named))


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("-5", 0.0),
        ("1e9", MAX_RETRY_AFTER_SECONDS),
        ("9" * 300, MAX_RETRY_AFTER_SECONDS),
        ("9" * 400, None),
        ("nan", None),
        ("inf", None),
        ("-inf", None),
        ("soon", None),
        ("", None),
        ("1, 2", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 2115 07:28:00 GMT", MAX_RETRY_AFTER_SECONDS),
        ("Wed, 21 Oct 99999 07:28:00 GMT", None),
    ],
)
def test_a_wait_is_a_number_of_seconds_or_a_date(told, expected):
    assert wait(retry_after=told) == expected


@pytest.mark.parametrize("zone", ["GMT", "-0000", ""])
@pytest.mark.parametrize("place", ["UTC", "Asia/Tokyo"])
def test_a_date_is_in_utc_wherever_we_are(zone, place, monkeypatch):
    monkeypatch.setenv("TZ", place)
    time.tzset()
    date = email.utils.formatdate(time.time() + 30).rpartition(" ")[0]
    try:
        assert 25 < wait(retry_after=f"{date} {zone}".strip()) <= 30
    finally:
        monkeypatch.undo()
        time.tzset()


def test_milliseconds_go_first_where_they_are_a_number():
    assert wait(retry_after="7", retry_after_ms="300") == 0.3
    assert wait(retry_after="7", retry_after_ms="nan") == 7.0
