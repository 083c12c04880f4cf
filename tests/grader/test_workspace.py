from dataclasses import replace

import pytest

from gagar_cli.core.evidence import Coordinate, check_finding
from gagar_cli.core.patch import PatchConflict
from gagar_cli.core.ranking import Finding
from gagar_cli.core.schema import Group, Message, ToolCall
from gagar_cli.grader.workspace import QUICK_CHARS, Workspace


@pytest.fixture
def workspace(group: Group, repository) -> Workspace:
    return Workspace(group, seed=0, repository=repository)


def blind(workspace: Workspace, name: str) -> str:
    return next(key for key, value in workspace.trajectory_ids.items() if value.endswith(name))


def test_passing_attempts_are_candidates_and_failing_ones_references(workspace):
    assert workspace.candidates == ("c01", "c02")
    assert workspace.references == ("f01",)


def test_a_group_is_quick_that_holds_little_and_all_in_memory(group, repository):
    assert Workspace(group, seed=0, repository=None).is_quick
    assert not Workspace(group, seed=0, repository=repository).is_quick


@pytest.mark.parametrize(
    "where",
    [
        "model_patch",
        "test_output",
        "messages",
        "arguments",
        "names",
        "empty messages",
        "empty calls",
        "packed",
    ],
)
def test_a_group_with_a_long_text_is_not_quick(group, where):
    text = "x" * (QUICK_CHARS + 1)
    changes = {
        "model_patch": {"model_patch": text},
        "test_output": {"test_output": text},
        "messages": {"messages": (Message("user", text),)},
        "arguments": {"messages": (Message("assistant", "", (ToolCall("bash", text),)),)},
        "names": {"messages": (Message("assistant", "", (ToolCall(text, "{}"),)),)},
        # Nothing is in them, but there are many to go through.
        "empty messages": {"messages": (Message("user", ""),) * 10_000},
        "empty calls": {"messages": (Message("assistant", "", (ToolCall("", ""),) * 10_000),)},
        # A sequence of another kind makes its messages when they are asked for.
        "packed": {"messages": [Message("user", "short")]},
    }
    long = replace(group.trajectories[-1], **changes[where])
    workspace = Workspace(
        replace(group, trajectories=(*group.trajectories[:-1], long)), seed=0, repository=None
    )
    assert not workspace.is_quick


def test_a_file_is_read_at_the_base_or_with_a_patch_applied(workspace):
    good = blind(workspace, "good")
    assert "sum(rows)" in workspace.read_file("src/table.py", None)
    assert "row.value" in workspace.read_file("src/table.py", good)
    assert workspace.read_file("src/absent.py", good) is None


def test_a_patch_that_does_not_fit_the_base_is_a_conflict(group, repository):
    stale = replace(
        group.trajectories[0],
        model_patch=group.trajectories[0].model_patch.replace("-    return sum", "-    return max"),
    )
    workspace = Workspace(
        replace(group, trajectories=(stale, *group.trajectories[1:])), seed=0, repository=repository
    )
    with pytest.raises(PatchConflict):
        workspace.read_file("src/table.py", blind(workspace, "good"))
    assert (
        workspace.lines_near(Coordinate("repo", blind(workspace, "good"), path="src/table.py", line=1))
        is None
    )


def test_byte_identical_patches_are_twins_and_empty_ones_are_not(group):
    same = replace(group.trajectories[1], model_patch=group.trajectories[0].model_patch)
    empty = [replace(group.trajectories[0], trajectory_id=name, model_patch="") for name in "xy"]
    workspace = Workspace(
        replace(group, trajectories=(group.trajectories[0], same, *empty)), seed=0, repository=None
    )
    (twin,) = workspace.twins.items()
    assert {workspace.trajectory_ids[name] for name in twin} == {"policy-x/good", "policy-x/noisy"}


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (Coordinate("patch", "noisy", path="src/table.py", line=2), '    print("debugging the rows", rows)'),
        (Coordinate("patch", "noisy", path="src/table.py", line=-2), "    return sum(rows)"),
        (Coordinate("repo", "base", path="src/table.py", line=5), "def label(row):"),
        (Coordinate("repo", "noisy", path="src/table.py", line=6), "def label(row):"),
        (Coordinate("turn", "noisy", number=1), "call bash: grep -n total src/table.py"),
        (Coordinate("turn", "noisy", number=1, line=3), "1:def total(rows):"),
        (Coordinate("test_output", "noisy", line=1), "ran 3 tests"),
    ],
)
def test_a_coordinate_leads_to_its_lines(workspace, place, expected):
    owner = place.owner if place.owner == "base" else blind(workspace, place.owner)
    assert expected in workspace.lines_near(replace(place, owner=owner))


@pytest.mark.parametrize(
    "place",
    [
        Coordinate("patch", "c01", path="src/table.py", line=99),
        Coordinate("patch", "c01", path="src/other.py", line=1),
        Coordinate("repo", "base", path="src/table.py", line=99),
        Coordinate("turn", "c01", number=9),
        Coordinate("turn", "c09", number=1),
        Coordinate("test_output", "c01", line=9),
        Coordinate("exec", "c01", number=1),
        Coordinate("turn", "base", number=1),
    ],
)
def test_a_place_that_does_not_exist_has_no_lines(workspace, place):
    assert workspace.lines_near(place) is None


def test_commands_are_numbered_by_candidate(workspace):
    assert [workspace.next_execution(name, ["out"]) for name in ("c01", "c02", "c01")] == [1, 1, 2]
    assert workspace.lines_near(Coordinate("exec", "c01", number=2)) == ["out"]


def test_the_first_prompt_stands_in_for_a_missing_problem_statement(group):
    bare = replace(group, task=replace(group.task, problem_statement=None))
    assert Workspace(bare, seed=0, repository=None).problem_statement == "total() ignores row.value"


def test_a_quote_over_two_lines_of_a_patch_is_found(workspace):
    noisy = blind(workspace, "noisy")
    anchor = '+    print("debugging the rows", rows)\n+    return sum(row.value'
    finding = Finding("patch", f"{noisy}:src/table.py:2", anchor, "left over", ("minimality",))
    assert "debugging" in check_finding(finding, noisy, workspace.lines_near).quote


def only(group: Group, patch: str, repository=None) -> Workspace:
    """A workspace whose first candidate has this patch; `c01` or `c02`, see `blind`."""
    changed = replace(group.trajectories[0], model_patch=patch)
    return Workspace(
        replace(group, trajectories=(changed, *group.trajectories[1:])), seed=0, repository=repository
    )


def test_a_second_section_for_the_same_file_can_be_cited_and_is_applied(group, repository):
    first = group.trajectories[0].model_patch
    second = (
        first.split("@@")[0]
        + "@@ -5,2 +5,3 @@\n def label(row):\n     return str(row)\n+# HIDDEN_TEST_VALUE = 41\n"
    )
    workspace = only(group, first + second, repository)
    good = blind(workspace, "good")
    assert "# HIDDEN_TEST_VALUE = 41" in workspace.lines_near(
        Coordinate("patch", good, path="src/table.py", line=7)
    )
    assert workspace.read_file("src/table.py", good).endswith("# HIDDEN_TEST_VALUE = 41\n")


def test_a_file_that_has_no_lines_can_be_cited_as_a_whole(group):
    patch = "diff --git a/junk.bin b/junk.bin\nnew file mode 100644\nindex 0000000..1234567\nBinary files /dev/null and b/junk.bin differ\n"
    workspace = only(group, patch)
    place = Coordinate("patch", blind(workspace, "good"), path="junk.bin", line=0)
    assert workspace.lines_near(place) == ["added binary file +0 -0"]


def test_a_patch_that_cannot_be_read_is_cited_as_text(group):
    workspace = only(group, "<html>\nnot a patch at all\n")
    good = blind(workspace, "good")
    assert "not a patch at all" in workspace.lines_near(Coordinate("patch", good, path="patch", line=2))


def test_a_renamed_file_is_read_under_its_new_name_only(group, repository):
    patch = "diff --git a/src/table.py b/src/rows.py\nsimilarity index 100%\nrename from src/table.py\nrename to src/rows.py\n"
    workspace = only(group, patch, repository)
    good = blind(workspace, "good")
    assert workspace.read_file("src/table.py", good) is None
    assert workspace.read_file("src/rows.py", good) == workspace.read_file("src/table.py", None)
