"""The wait that an endpoint asks for, in whatever form, and when a refusal is one of the whole run."""

import email.utils
import time

import httpx2
import pytest

from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.schema import GroupKey
from gagar_cli.errors import EndpointError
from gagar_cli.grader.refusals import MAX_RETRY_AFTER_SECONDS, RefusedGroups, retry_after_seconds


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


REFUSED = "endpoint: the endpoint refused (status 400: no such model)"


UNASKED = "no lead, so no call"


def test_groups_that_are_left_after_others_were_graded_do_not_end_a_run_that_goes_on():
    groups = RefusedGroups()
    groups.tell_graded()
    for _ in range(9):
        groups.count(GroupRanking(GroupKey(None, "g"), "ungraded", REFUSED))
    groups.raise_if_all()


def is_hopeless(*reasons: str | None) -> bool:
    """Whether the run ends after groups that were ungraded for these reasons; None is one that was graded."""
    groups = RefusedGroups()
    for reason in reasons:
        status = "skipped" if reason == UNASKED else "ungraded" if reason else "graded"
        n_calls = 0 if reason in (UNASKED, REFUSED) else 3
        groups.count(GroupRanking(GroupKey(None, "g"), status, reason, grader={"calls": n_calls}))
    try:
        groups.raise_if_all()
    except EndpointError as error:
        return error.is_fatal
    return False


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        pytest.param([REFUSED] * 4, False, id="four may be bad luck"),
        pytest.param([REFUSED] * 5, True, id="five are not"),
        pytest.param([None, *[REFUSED] * 9], False, id="one was graded before"),
        pytest.param([*[REFUSED] * 4, "verdict: no ranking", REFUSED], False, id="not in a row"),
        pytest.param([UNASKED, *[REFUSED] * 3, UNASKED, *[REFUSED] * 2], True, id="some were not asked"),
        pytest.param(["verdict: no ranking", *[REFUSED] * 5], True, id="another trouble before"),
        pytest.param([*[REFUSED] * 4, REFUSED.replace("400", "422")], False, id="another status"),
        pytest.param([*[REFUSED] * 4, REFUSED.replace("model", "tool")], False, id="another refusal"),
        pytest.param([f"{REFUSED[:-1]}, id req-{n}f)" for n in range(5)], True, id="only the ids differ"),
        pytest.param([REFUSED.replace("refused", "refused the content")] * 9, False, id="of the content"),
        pytest.param(["endpoint: the endpoint failed 6 times, last: x"] * 9, False, id="no refusal"),
    ],
)
def test_the_same_refusal_from_the_first_group_on_is_one_of_the_run(reasons, expected):
    assert is_hopeless(*reasons) == expected
