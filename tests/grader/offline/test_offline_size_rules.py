import pytest

from gagar_cli.grader.offline.facts import Group
from gagar_cli.grader.offline.rules_scope import rule_rewrite, rule_scope
from gagar_cli.grader.offline.rules_size import agreed_files, measure, rule_place, rule_size

FIX = "-    return sum(rows)\n+    return sum(row.value for row in rows)"


def lines(number, marker="+", word="step"):
    return "\n".join(f"{marker}    {word}_{index} = handle(row, {index})" for index in range(number))


@pytest.mark.parametrize(("n_added", "cost"), [(1, 0), (3, 0), (8, 1), (20, 2), (60, 3)])
def test_size_is_measured_against_the_smallest_patch(find, n_added, cost):
    found = find(rule_size, lines(n_added), FIX, FIX, FIX)
    assert sum(entry.costs["minimality"] for entry in found) == cost


def test_a_usual_size_costs_one_point_at_most(find):
    (found,) = find(rule_size, lines(20), lines(20), lines(20), FIX)
    assert found.costs == {"minimality": 1}
    assert found.compared_with == "c04:src/a.py:-10"


def test_comments_blank_lines_docs_and_tests_have_no_size(candidate_of):
    candidate = candidate_of(
        {
            "src/a.py": '+    # why\n+\n+    """Sums of rows.\n+    """\n+    return 1',
            "docs/a.rst": "+text",
            "tests/test_a.py": "+x = 1",
        }
    )
    assert measure(candidate) == 1


def test_a_hack_is_not_the_measure_of_size(find):
    hack = '+    if rows == "1 2 3": return 6'
    assert not find(rule_size, lines(8), lines(7), hack, statement="`1 2 3` should give 6")


def test_files_of_the_majority_are_agreed(candidate_of):
    group = Group((candidate_of(FIX), candidate_of(FIX, "c02"), candidate_of({"src/b.py": FIX}, "c03")))
    assert agreed_files(group) == {"src/a.py"}


def test_a_file_that_the_siblings_leave_alone_costs_minimality(find):
    (found,) = find(rule_place, {"src/a.py": FIX, "src/b.py": lines(3)}, FIX, FIX)
    assert found.costs == {"minimality": 1}
    assert found.evidence[0].at == "c01:src/b.py:10"


def test_solving_it_elsewhere_costs_approach_only(find):
    (found,) = find(rule_place, {"src/b.py": FIX}, FIX, FIX)
    assert found.costs == {"approach": 1}


DRIVE_BY = {"src/a.py": FIX, "src/b.py": lines(10, "-", "old") + "\n" + lines(12)}


def test_a_drive_by_refactor_is_out_of_scope(find):
    (found,) = find(rule_scope, DRIVE_BY, FIX, FIX)
    assert found.flag == "out_of_scope"
    assert found.evidence[0].at.startswith("c01:src/b.py:-")


def test_what_the_issue_names_is_in_scope(find):
    named = {"src/a.py": FIX, "src/rows.py": DRIVE_BY["src/b.py"]}
    assert find(rule_scope, named, FIX, FIX)
    assert not find(rule_scope, named, FIX, FIX, statement="`rows.py` should handle steps")


def test_reindented_code_is_moved_and_not_rewritten(find):
    moved = "\n".join([FIX, " gap", *(f"-    step({n})\n+        step({n})" for n in range(20))])
    assert not find(rule_scope, {"src/a.py": FIX, "src/b.py": moved}, FIX, FIX)


def test_a_rewrite_of_what_siblings_mend_in_a_line_is_out_of_scope(find):
    rewrite = lines(20, "-", "old") + "\n" + lines(40)
    (found,) = find(rule_rewrite, rewrite, FIX, FIX)
    assert found.flag == "out_of_scope"
    assert not find(
        rule_rewrite, rewrite, rewrite.replace("handle", "manage"), rewrite.replace("row", "line")
    )


def test_a_lone_candidate_is_compared_with_nobody(find):
    for rule in (rule_size, rule_place, rule_scope, rule_rewrite):
        assert not find(rule, DRIVE_BY)
