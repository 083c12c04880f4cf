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
        ("AcmeCoder", "policy"),
        ("x/acme%2Dcoder?", "x/policy?"),
        ("acme&#45;coder", "policy"),
        ("acme</b>-coder", "policy"),
        (r'{"by": "acme\u002dcoder"}', '{"by": "policy"}'),
        ("acme\ncoder", "policy"),
        ("\uff21\uff43\uff4d\uff45-coder", "policy"),
        ("ac\u200bme-co\u00adder", "policy"),
        ("\u0430cme-c\u043eder", "policy"),
        ("\u00e1cme c\u00f6der", "policy"),
        ("caf\u00e9\nac\u200bme-coder", "caf\u00e9\npolicy"),
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


def test_words_of_a_name_written_as_one_are_found_apart():
    assert Scrubber(["AcmeCoder2"]).scrub("acme-coder 2, acme_coder2") == "policy, policy"


def test_the_family_of_a_name_is_taken_out_of_prose_and_left_in_code():
    scrubber = Scrubber(["claude-sonnet-4-5"], hints=["pilot"])
    assert (
        scrubber.scrub("Co-Authored-By: Claude, at Anthropic, pilot")
        == "Co-Authored-By: policy, at policy, policy"
    )
    assert (
        scrubber.scrub("import anthropic  # claude-sonnet-4-5", is_code=True) == "import anthropic  # policy"
    )
    assert scrubber.hints == ("anthropic", "claude", "pilot")


MAIL = """From 0123 Mon Sep 17 00:00:00 2001
From: Acme Coder <acme-coder@example.org>
Subject: [PATCH] by acme-coder

---
 acme_coder.py | 1 +

diff --git a/src/acme_coder_base.py b/src/acme_coder_base.py
--- a/src/acme_coder_base.py
+++ b/src/acme_coder_base.py\t2024-01-01
@@ -1,1 +1,2 @@ def acme_coder():
 x
+++ acme_coder ++
diff --git a/acme_coder b/acme_coder
new file mode 120000
--- /dev/null
+++ b/acme_coder
@@ -0,0 +1 @@
+../acme-coder/target
\\ No newline at end of file
diff --git a/old.py b/acme_coder/new.py
similarity index 100%
rename from old.py
rename to acme_coder/new.py
diff --git "a/acme-coder \\303\\251.md" "b/acme-coder \\303\\251.md"
new file mode 100644
--- /dev/null
+++ "b/acme-coder \\303\\251.md"
@@ -0,0 +1 @@
+x
--
2.39 acme-coder
""".replace("\\\\", "\\")


def test_text_around_a_patch_links_and_quoted_names_are_scrubbed_and_base_names_stay():
    scrubbed = Scrubber(["acme-coder"]).scrub_patch(MAIL)
    before, after = parse_patch(MAIL), parse_patch(scrubbed)
    assert [file.path for file in after.files] == [
        "src/acme_coder_base.py",
        "policy",
        "policy/new.py",
        "policy \u00e9.md",
    ]
    assert [file.old_path for file in after.files] == ["src/acme_coder_base.py", None, "old.py", None]
    assert after.problems == before.problems
    left = [line for line in scrubbed.split("\n") if Scrubber(["acme-coder"]).find(line)]
    assert left == [
        "diff --git a/src/acme_coder_base.py b/src/acme_coder_base.py",
        "--- a/src/acme_coder_base.py",
        "+++ b/src/acme_coder_base.py\t2024-01-01",
        "@@ -1,1 +1,2 @@ def acme_coder():",
    ]


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
