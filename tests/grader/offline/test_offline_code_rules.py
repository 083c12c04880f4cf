import pytest

from gagar_cli.grader.offline.rules_churn import rule_churn, rule_whitespace
from gagar_cli.grader.offline.rules_code import rule_silenced_checkers, rule_swallowed_exceptions
from gagar_cli.grader.offline.rules_dead import rule_commented_code, rule_unreachable, rule_unused_names
from gagar_cli.grader.offline.rules_duplicates import rule_repeated_block, rule_twin_functions
from gagar_cli.grader.offline.rules_helpers import rule_existing_helper
from gagar_cli.grader.offline.source import is_prose

FIX = "-    return sum(rows)\n+    return sum(row.value for row in rows)"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        pytest.param("src/a.py", "+    except:\n+        pass", id="bare"),
        pytest.param(
            "src/a.py",
            "+    except Exception as error:\n+        # never mind\n+        return None",
            id="comment-between",
        ),
        pytest.param("src/a.js", "+  } catch (error) {}", id="javascript"),
        pytest.param("src/A.java", "+    } catch (Exception e) {\n+    }", id="java"),
    ],
)
def test_swallowing_every_error_is_a_flaw(find, path, code):
    (found,) = find(rule_swallowed_exceptions, {path: f" surrounding line\n{code}"}, FIX)
    assert found.costs["approach"] == 2


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("+    except ValueError:\n+        pass", id="narrow"),
        pytest.param("+    except Exception:\n+        raise RowError(row)", id="raised-again"),
        pytest.param(
            "-    except Exception:\n-        pass\n+        except Exception:\n+            pass", id="moved"
        ),
    ],
)
def test_handled_or_older_exceptions_are_no_flaw(find, code):
    assert not find(rule_swallowed_exceptions, code, FIX)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("+    if False:\n+        rows = sorted(rows)", id="never"),
        pytest.param("     return total\n+    return total", id="after-return"),
        pytest.param(
            "+USE_OLD_ROWS = False\n+    if USE_OLD_ROWS:\n+        rows = old_rows()", id="switched-off"
        ),
    ],
)
def test_code_that_cannot_run_is_dead(find, code):
    assert find(rule_unreachable, code, FIX)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("+    return total(\n+    rows)", id="open-bracket"),
        pytest.param("+        return None\n+    return total", id="other-depth"),
        pytest.param("+        return rows\n+        # the rest is empty\n+    else:", id="else"),
        pytest.param("+    raise an error early\n+    return the rows", id="prose"),
    ],
)
def test_reachable_code_is_not_dead(find, code):
    assert not find(rule_unreachable, code, FIX)


def test_code_commented_out_is_found_and_prose_is_not(find):
    assert find(rule_commented_code, "+    # total = sum(rows)\n+    # return total", FIX)
    assert find(rule_commented_code, "-    rows.sort(key=by_value)\n+    # rows.sort(key=by_value)", FIX)
    assert not find(rule_commented_code, "+    # The rows are summed by value, see above.", FIX)


def test_an_import_without_use_is_found(find):
    (found,) = find(
        rule_unused_names, "+import itertools\n+from typing import Any\n+def total(rows: Any):", FIX
    )
    assert "itertools" in found.claim
    assert not find(rule_unused_names, "+import itertools\n+    rows = itertools.chain(*rows)", FIX)
    assert not find(rule_unused_names, "-from a import Row\n+from b import Row", FIX)


def test_a_free_function_without_a_caller_is_found_unless_the_issue_asks_for_it(find):
    unused = "+def total_of_rows(rows):\n+    return sum(rows)"
    assert find(rule_unused_names, unused, FIX)
    assert not find(rule_unused_names, unused, FIX, statement="add total_of_rows")
    assert not find(rule_unused_names, f"{unused}\n+print_rows(total_of_rows(rows))", FIX)


def test_a_silenced_checker_costs_consistency(find):
    (found,) = find(rule_silenced_checkers, "+    return rows  # type: ignore", FIX)
    assert found.costs == {"consistency": 1}
    assert not find(rule_silenced_checkers, "-    x = 1  # noqa\n+    x = 2  # noqa", FIX)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("-    name = \"total\"\n+    name = 'total'", id="quotes"),
        pytest.param("-    total=sum( rows )\n+    total = sum(rows)", id="blanks"),
        pytest.param(
            "-    call(first, second)\n+    call(\n+        first,\n+        second,\n+    )", id="reflow"
        ),
        pytest.param("-    # sum the rows\n+    # add up all rows", id="comment"),
    ],
)
def test_a_change_of_form_only_is_churn(find, code):
    assert find(rule_churn, code, FIX)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param('-    text = "a  b"\n+    text = "a b"', id="blanks-in-a-string"),
        pytest.param("-    rows.sort()\n+    if rows:\n+        rows.sort()", id="deeper"),
        pytest.param(
            "-    # sums rows\n-    return 1\n+    # counts rows\n+    return 2", id="comment-of-changed-code"
        ),
    ],
)
def test_a_change_of_meaning_is_no_churn(find, code):
    assert not find(rule_churn, code, FIX)


def test_trailing_white_space_costs_consistency(find):
    (found,) = find(rule_whitespace, "+    return rows  ", FIX)
    assert found.costs == {"consistency": 1}


def test_the_same_function_twice_is_a_twin(find):
    body = "+    total = 0\n+    for row in rows:\n+        total += row.value\n+    return total\n"
    assert find(rule_twin_functions, f"+def first(rows):\n{body} \n+def second(rows):\n{body}", FIX)


def test_a_block_added_twice_is_found(find):
    block = "".join(f"+    handle_the_row_number_{number}(row, total)\n" for number in range(4))
    (found,) = find(rule_repeated_block, f"{block} middle()\n{block}", FIX)
    assert "repeats 4 lines" in found.claim


def test_a_helper_that_the_repository_has_is_found_by_its_name(find, shown):
    patch = "+def fold_rows(rows):\n+    return [row.strip() for row in rows]"
    there = {("fold_rows(", "repo", ""): (shown("base:src/text.py:7", "def fold_rows(rows):"),)}
    (found,) = find(rule_existing_helper, patch, FIX, searches=there)
    assert "src/text.py line 7" in found.claim
    assert not find(rule_existing_helper, patch, FIX)


def test_a_helper_is_found_by_rare_calls_that_stand_together(find, shown):
    patch = (
        "+def _width(text):\n+    total = 0\n+    for char in text:\n+        if unicodedata.combining(char):\n"
        "+            continue\n+        total += unicodedata.east_asian_width(char) in 'WF'\n+    return total"
    )
    searches = {
        ("unicodedata.combining(", "repo", ""): (
            shown("base:src/text.py:7", "if unicodedata.combining(c):"),
        ),
        ("unicodedata.east_asian_width(", "repo", ""): (
            shown("base:src/text.py:9", "unicodedata.east_asian_width(c)"),
        ),
    }
    assert find(rule_existing_helper, patch, FIX, searches=searches)
    searches["unicodedata.combining(", "repo", ""] = (
        shown("base:src/other.py:7", "unicodedata.combining(c)"),
    )
    assert not find(rule_existing_helper, patch, FIX, searches=searches)


@pytest.mark.parametrize(
    ("text", "is_text"),
    [
        ("the rows are summed", True),
        ("for row in rows:", False),
        ("x = a or b", False),
        ("return not rows", False),
    ],
)
def test_prose_has_two_plain_words_side_by_side(text, is_text):
    assert is_prose(text) is is_text
