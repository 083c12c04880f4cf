"""Turn digests in the manners of the agents that write dumps: SWE-agent, mini-swe-agent, OpenHands and their kin."""

import json
import time

import pytest

from gagar_cli.core.actions import MAX_ACTION_CHARS, describe_action
from gagar_cli.core.outcomes import describe_outcome
from gagar_cli.core.schema import Message, ToolCall
from gagar_cli.core.turns import split_turns


def call(name: str, **arguments) -> ToolCall:
    return ToolCall(name, json.dumps(arguments))


@pytest.mark.parametrize(
    ("reply", "calls", "action"),
    [
        ("", [call("bash", command="cd /testbed && pytest -q tests")], "$ pytest -q tests"),
        (
            "",
            [call("bash", command="cat > a.py <<'EOF'\nx = 1\nEOF")],
            "$ cat > a.py <<'EOF' … (+2 lines)",
        ),
        (
            "",
            [call("str_replace_editor", command="str_replace", path="a.py", old_str="x", new_str="y\nz")],
            "edit a.py (-1 +2 lines)",
        ),
        (
            "",
            [call("str_replace_editor", command="insert", path="a.py", insert_line=4, new_str="y\n")],
            "edit a.py:4 (+1 line)",
        ),
        (
            "",
            [call("str_replace_editor", command="create", path="a.py", file_text="x\ny\n")],
            "create a.py (2 lines)",
        ),
        (
            "",
            [call("str_replace_editor", command="view", path="a.py", view_range=[3, 9])],
            "view a.py [3, 9]",
        ),
        ("", [call("Edit", file_path="a.py", old_string="x", new_string="")], "edit a.py (-1 +0 lines)"),
        ("", [call("read", filePath="a.py")], "view a.py"),
        ("", [call("execute_code", code="print(1)")], "$ print(1)"),
        ("", [call("finish")], "finish"),
        ("", [call("glob", pattern="**/a.py")], "glob pattern=**/a.py"),
        (
            "",
            [call("bash", command="ls"), call("read", filePath="b"), *[call("bash", command="w")] * 4],
            "$ ls; view b; $ w; $ w; and 2 more",
        ),
        ("THOUGHT: look.\n\n```bash\ngrep -n x a.py\n```", [], "$ grep -n x a.py"),
        ("First\n```\nold\n```\nthen\n```\nedit 5:7\nx\ny\nend_of_edit\n```", [], "edit lines 5-7 (2 lines)"),
        ("```\ncreate a.py\n```", [], "create a.py"),
        (
            "Look.\n<function=str_replace_editor>\n<parameter=command>view</parameter>\n<parameter=path>a.py</parameter>",
            [],
            "view a.py",
        ),
        ("I believe that it works.", [], "I believe that it works."),
        ("", [], "(empty reply)"),
        ("", [ToolCall("bash", '{"command": cut')], 'bash {"command": cut'),
    ],
)
def test_an_action_says_what_was_run_or_edited(reply, calls, action):
    assert describe_action(reply, calls) == action


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ("<returncode>0</returncode>\n<output>\n</output>", "exit 0, no output"),
        ("<returncode>0</returncode>\n<output>\na\nb\nc\n</output>", "exit 0, 3 lines"),
        (
            "OBSERVATION:\na.py[Python Interpreter: /x]\n[Command finished with exit code 2]",
            "exit 2, a.py",
        ),
        ("Ran 10 tests in 0.1s\n\nFAILED (failures=1, errors=2)", "tests 7 passed, 3 failed"),
        ("...\n= 1 failed, 5 passed, 2 skipped in 3.1s =", "tests 5 passed, 1 failed"),
        ("== tests finished: 39 passed, 3 skipped, in 6.72 seconds ==", "tests 39 passed, 0 failed"),
        ("test result: ok. 5 passed; 0 failed; 0 ignored", "tests 5 passed, 0 failed"),
        ("  5 passing (10ms)\n  1 failing", "tests 5 passed, 1 failed"),
        ("Tests:       1 failed, 5 passed, 6 total", "tests 5 passed, 1 failed"),
        ("Tests run: 8, Failures: 1, Errors: 1, Skipped: 0", "tests 6 passed, 2 failed"),
        ("ok   example.com/a  0.01s\nFAIL example.com/b 0.02s", "tests 1 passed, 1 failed"),
        ("a.py:3: error: wrong\nFound 2 errors in 1 file", "a.py:3: error: wrong"),
        (
            "Traceback (most recent call last):\n  File x\nKeyError: 'a'\n\n(Open file: n/a)\nbash-$",
            "KeyError: 'a', 3 lines",
        ),
        ("bash: line 1: pytest: command not found", "bash: line 1: pytest: command not found"),
        ("ERROR:\nno such file", "ERROR: no such file"),
        (
            "Your proposed edit has introduced new syntax error(s). Fix them.\n\nERRORS:\n- E999 IndentationError: x",
            "edit rejected: E999 IndentationError: x, 3 lines",
        ),
        ("Your proposed edit has introduced new syntax error(s).\nSee above.\nx", "edit rejected, 3 lines"),
        ("The last command timed out and has been killed.\na\nb", "timed out, 3 lines"),
        ("Your command ran successfully and did not produce any output.", "no output"),
    ],
)
def test_an_outcome_says_what_came_of_it(result, outcome):
    assert describe_outcome([result]) == outcome


def test_a_file_that_holds_an_error_is_no_failed_command():
    shown = (
        "<returncode>0</returncode>\n<output>\nTraceback (most recent call last):\nKeyError: 'a'\n\n</output>"
    )
    assert describe_outcome([shown]) == "exit 0, Traceback (most recent call last): KeyError: 'a'"


def test_an_edit_names_the_file_that_its_editor_has_open():
    messages = [
        Message("assistant", "```\nedit 3:3\nx\nend_of_edit\n```"),
        Message("user", "[File: /repo/a.py (9 lines total)]\n1:x\n(Open file: /repo/a.py)\nbash-$"),
    ]
    assert split_turns(messages)[0].digest == "edit /repo/a.py lines 3-3 (1 line) → done"


@pytest.mark.parametrize(
    "text",
    ["a" * 2_000_000, "<function=" * 100_000, "```" * 300_000, "exit code " * 100_000, "E: " * 300_000, "\n" * 10**6],
    ids=["one-line", "xml", "fences", "codes", "colons", "newlines"],
)  # fmt: skip
def test_a_digest_of_hostile_text_is_short_and_quick(text):
    started = time.process_time()
    action, outcome = describe_action(text, []), describe_outcome([text])
    assert time.process_time() - started < 1
    assert len(action) <= MAX_ACTION_CHARS
    assert len(outcome) <= 110
