import pytest

from gagar_cli.grader.offline.rules_files import rule_documentation, rule_settings, rule_tests
from gagar_cli.grader.offline.rules_leftovers import (
    rule_debug_output,
    rule_misplaced_text,
    rule_narration,
    rule_notes,
    rule_scratch_files,
)

FIX = "-    return sum(rows)\n+    return sum(row.value for row in rows)"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        pytest.param("src/a.py", "    print('rows', rows)", id="python"),
        pytest.param("src/a.ts", "  console.log(rows, total)", id="typescript"),
        pytest.param("pkg/a.go", '\tfmt.Println("rows", rows)', id="go"),
        pytest.param("src/A.java", '    System.out.println("rows");', id="java"),
        pytest.param("src/a.rs", "    dbg!(&rows, total);", id="rust"),
    ],
)
def test_a_debug_print_is_held_against_a_library_patch(find, path, line):
    (found,) = find(rule_debug_output, {path: f"{FIX}\n+{line}"}, FIX)
    assert found.costs["side_effects"] == 2
    assert found.evidence[0].anchor == line.strip()


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"src/a.py": "-    print(rows)\n+    print(list(rows))"}, id="it-printed-before"),
        pytest.param({"src/cli.py": "+    print(list(rows))"}, id="a-command-prints"),
        pytest.param({"src/a.py": "+    >>> print(total(rows))"}, id="doctest"),
        pytest.param({"tests/test_a.py": "+    print(list(rows))"}, id="test"),
        pytest.param({"src/a.py": "+    print(text, file=stream)"}, id="a-stream-of-the-caller"),
    ],
)
def test_output_that_belongs_there_is_no_debug_output(find, patch):
    assert not find(rule_debug_output, patch, FIX)


def test_what_half_of_the_siblings_print_is_the_feature(find):
    printing = "+    print(total(rows))"
    assert not find(rule_debug_output, printing, printing, printing, FIX)
    assert find(rule_debug_output, printing, printing, FIX)


def test_a_breakpoint_costs_more_than_a_print(find):
    (found,) = find(rule_debug_output, "+    import pdb; pdb.set_trace()", FIX)
    assert found.rule == "breakpoint"
    assert found.costs["side_effects"] == 3


def test_a_short_line_is_proven_by_a_neighbour(find):
    (found,) = find(rule_debug_output, "+    value = row.value\n+    print()", FIX)
    assert found.evidence[0] == ("patch", "c01:src/a.py:10", "value = row.value")


def test_without_anything_to_quote_nothing_is_claimed(find):
    assert not find(rule_debug_output, "+  print()", FIX)


@pytest.mark.parametrize(
    "path", ["reproduce.py", "test_bug.py", "src/a.py.orig", "debug_rows.py", "replicate_issue.py"]
)
def test_a_scratch_file_costs_minimality(find, path):
    (found,) = find(rule_scratch_files, {"src/a.py": FIX, f"!{path}": "+from src.a import total"}, FIX)
    assert found.costs == {"minimality": 2}
    assert path in found.claim


def test_a_heap_of_scratch_files_ends_in_the_last_tier(find):
    heap = {f"!reproduce_{number}.py": "+from src.a import total" for number in range(4)}
    found = find(rule_scratch_files, heap, FIX)
    assert sum(entry.costs.get("minimality", 0) for entry in found) == 3
    assert sum(entry.costs.get("side_effects", 0) for entry in found) == 3


def test_a_new_module_in_a_package_is_no_scratch_file(find):
    assert not find(rule_scratch_files, {"!src/rows.py": "+from src.a import total"}, FIX)


def test_notes_and_narration_cost_consistency_only(find):
    (note,) = find(rule_notes, "+    # TODO: handle empty rows", FIX)
    (story,) = find(rule_narration, "+    rows = []  # Added default for rows", FIX)
    assert note.costs == story.costs == {"consistency": 1}


def test_a_moved_note_is_not_new(find):
    assert not find(rule_notes, "-# TODO: handle empty rows\n+    # TODO: handle empty rows", FIX)


def test_a_text_amid_the_code_is_misplaced(find):
    (found,) = find(
        rule_misplaced_text, '+    # Documentation of rows\n+    """\n+    rows : list\n+    """', FIX
    )
    assert found.rule == "misplaced text"


def test_new_tests_are_welcome(find):
    assert not find(rule_tests, {"tests/test_a.py": "+def test_total():\n+    assert total([]) == 0"}, FIX)


def test_a_weakened_check_costs_more_than_a_changed_one(find):
    old = "-        self.assertEqual(total(rows), 6)\n"
    (weaker,) = find(rule_tests, {"tests/test_a.py": old + "+        self.assertTrue(total(rows))"}, FIX)
    (changed,) = find(rule_tests, {"tests/test_a.py": old + "+        self.assertEqual(total(rows), 7)"}, FIX)
    assert weaker.costs == {"side_effects": 2, "approach": 1}
    assert changed.costs == {"side_effects": 1}


def test_skipping_an_existing_test_is_a_flaw_and_a_new_skipped_test_is_not(find):
    skip = "+@pytest.mark.skip(reason='later')\n"
    assert find(rule_tests, {"tests/test_a.py": skip + " def test_total():"}, FIX)
    assert not find(rule_tests, {"tests/test_a.py": skip + "+def test_total():"}, FIX)


def test_settings_may_change_where_the_task_names_them(find):
    patch = {"src/a.py": FIX, "setup.cfg": "+max-line-length = 200"}
    assert find(rule_settings, patch, FIX)
    assert not find(rule_settings, patch, FIX, statement="setup.cfg lacks a line length")


def test_documentation_rewritten_at_large_is_a_flaw(find):
    rewrite = "\n".join(f"-Default {number}\n+Standard {number}" for number in range(6))
    (found,) = find(rule_documentation, {"src/a.py": FIX, "docs/ref.rst": rewrite}, FIX)
    assert found.costs["minimality"] == 2
    assert not find(rule_documentation, {"src/a.py": FIX, "docs/ref.rst": "+A new remark"}, FIX)
