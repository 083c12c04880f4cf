import pytest

from gagar_cli.core.patch import parse_patch
from gagar_cli.core.schema import Group, GroupKey, Message, Task, ToolCall, Trajectory
from gagar_cli.core.scrubbing import Scrubber, find_leak, scrub_trajectory


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("by Acme-Coder v2.", "by policy v2."),
        ("acme_coder", "policy"),
        ("ACME CODER/out", "policy/out"),
        ("acme - coder", "policy"),
        ("/home/acmecoder/x", "/home/policy/x"),
        ("acme decoder", "acme decoder"),
    ],
)
def test_a_name_is_found_in_any_case_and_with_any_separators(text, scrubbed):
    assert Scrubber(["acme-coder"]).scrub(text) == scrubbed


def test_a_short_name_is_a_word_of_its_own_and_a_shorter_one_is_none():
    scrubber = Scrubber(["gpt", "a1"])
    assert scrubber.scrub("gpt, a1, optgpting") == "policy, a1, optgpting"
    assert scrubber.names == ("gpt",)


def test_an_organisation_is_dropped_from_a_name_and_the_ending_from_a_file():
    scrubber = Scrubber(["acme/big-model", "runs/step100-new.jsonl.zst"])
    assert scrubber.scrub("BigModel step100 new") == "policy policy"


def test_no_names_leave_everything():
    assert Scrubber([]).scrub("x") == "x"
    assert Scrubber([]).find("x") is None


PATCH = """diff --git a/src/a.py b/src/a.py
--- a/src/a.py
+++ b/src/a.py
@@ -1,2 +1,3 @@
 # acme-coder is the upstream project
-old
+new, written by acme-coder
+more
diff --git a/acme_coder_notes.md b/acme_coder_notes.md
new file mode 100644
--- /dev/null
+++ b/acme_coder_notes.md
@@ -0,0 +1 @@
+x
"""


def test_a_patch_loses_the_name_where_the_policy_wrote_it_and_still_applies():
    patch = parse_patch(Scrubber(["acme-coder"]).scrub_patch(PATCH))
    assert [file.path for file in patch.files] == ["src/a.py", "policy_notes.md"]
    lines = [(line.marker, line.text) for line in patch.files[0].hunks[0].lines]
    assert lines == [
        (" ", "# acme-coder is the upstream project"),
        ("-", "old"),
        ("+", "new, written by policy"),
        ("+", "more"),
    ]
    assert not patch.problems


def _trajectory(**changes) -> Trajectory:
    fields = {
        "trajectory_id": "t",
        "reward": 1.0,
        "passed": True,
        "messages": (
            Message("system", "You are acme-coder."),
            Message("assistant", "I, acme-coder", (ToolCall("acme-coder-run", '{"x": "acme coder"}'),)),
        ),
        "model_patch": PATCH,
        "test_output": "host acme-coder: 3 passed",
        "where": "acme-coder.jsonl:3",
    }
    return Trajectory(**(fields | changes))


@pytest.mark.parametrize("shows", ["patch", "patch+tests", "full"])
def test_nothing_that_is_shown_is_left_to_leak(shows):
    scrubber = Scrubber(["acme-coder"])
    scrubbed = scrub_trajectory(_trajectory(), scrubber, shows=shows)
    assert find_leak(Group(GroupKey(None, "g"), Task(), (scrubbed,)), scrubber) is None
    assert [message.role for message in scrubbed.messages] == (["assistant"] if shows == "full" else [])
    assert scrubbed.test_output == (None if shows == "patch" else "host policy: 3 passed")
    assert scrubbed.where == ""


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"model_patch": PATCH, "messages": (), "test_output": None}, "t: patch"),
        ({"model_patch": PATCH[PATCH.index("diff --git a/acme") :]}, "t: name of a file"),
        ({"model_patch": None}, "t: test output"),
        ({"model_patch": None, "test_output": None}, "t: message 1"),
        ({"model_patch": "by acme-coder", "messages": ()}, "t: patch"),
    ],
    ids=["added line", "new file", "test output", "message", "no diff"],
)
def test_a_name_that_is_left_is_found_with_its_place(changes, place):
    group = Group(GroupKey(None, "g"), Task(problem_statement="acme-coder"), (_trajectory(**changes),))
    assert find_leak(group, Scrubber(["acme-coder"]))[0] == place


def test_what_the_repository_says_is_no_leak():
    context = PATCH.replace("+new, written by acme-coder\n", "+new\n").replace("acme_coder_notes", "notes")
    group = Group(
        GroupKey(None, "g"), Task(), (_trajectory(model_patch=context, messages=(), test_output=None),)
    )
    assert find_leak(group, Scrubber(["acme-coder"])) is None
