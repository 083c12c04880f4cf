import asyncio
from dataclasses import replace

from gagar_cli.core.schema import Group
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.workspace import Workspace

HEADER = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n"
NEAR = "@@ -10,3 +10,3 @@\n x = 1\n-y = 2\n+y = {}\n z = 3\n"
FAR = "@@ -50,2 +50,3 @@\n end\n+tail = {}\n last\n"


def added(path: str, text: str) -> str:
    return f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{text}\n"


def compare(group: Group, *patches: str) -> list[str]:
    """What is shown for passing attempts with these patches, in the order of their blind ids."""
    template = group.trajectories[0]
    names = Workspace(_with(group, [""] * len(patches), template), seed=0, repository=None).trajectory_ids
    order = [int(names[f"c{number:02d}"]) for number in range(1, len(patches) + 1)]
    placed = [""] * len(patches)
    for place, patch in zip(order, patches, strict=True):
        placed[place] = patch
    workspace = Workspace(_with(group, placed, template), seed=0, repository=None)
    return asyncio.run(Toolbox(workspace, None).call("compare_patches", {})).splitlines()


def _with(group: Group, patches: list[str], template) -> Group:
    return replace(
        group,
        trajectories=tuple(
            replace(template, trajectory_id=str(number), model_patch=patch)
            for number, patch in enumerate(patches)
        ),
    )


def test_the_same_change_is_shown_once_and_others_beside_it(group):
    one, two = HEADER + NEAR.format("3"), HEADER + NEAR.format("4")
    assert compare(group, one, two, one, one) == [
        "4 patches, 1 file",
        "file│a.py",
        " base lines 11-11: 2 ways",
        "  A: c01 c03 c04",
        "c01:a.py:-11│-y = 2",
        "c01:a.py:11│+y = 3",
        "  B: c02",
        "c02:a.py:-11│-y = 2",
        "c02:a.py:11│+y = 4",
    ]


def test_places_are_told_apart_and_who_leaves_them_untouched(group):
    shown = compare(group, HEADER + NEAR.format("3") + FAR.format("1"), HEADER + NEAR.format("3"))
    assert shown[2:4] == [" base lines 11-11: one way", "  A: all"]
    assert shown[6:] == [
        " base lines 50-50: one way, untouched by c02",
        "  A: c01",
        "c01:a.py:51│+tail = 1",
    ]


def test_changes_that_differ_in_white_space_only_are_one(group):
    shown = compare(group, HEADER + NEAR.format("f(1, 2)"), HEADER + NEAR.format("f(1,  2)"))
    assert "  A: all (white space differs)" in shown


def test_a_file_of_one_candidate_alone_is_named_and_not_shown(group):
    fix = HEADER + NEAR.format("3")
    shown = compare(group, fix, fix + added("scratch.py", "print(1)"))
    assert shown[-2:] == [
        "files that one candidate alone changes (view_patch shows them):",
        "  c02 added file +1 -0│scratch.py",
    ]


def test_a_file_that_some_leave_alone_says_who(group):
    fix, new = HEADER + NEAR.format("3"), added("b.py", "b = 1")
    shown = compare(group, fix + new, fix + new, fix)
    assert shown[shown.index("file│b.py") + 1] == " not changed by c03"


def test_a_long_change_is_cut_with_the_call_that_shows_it(group):
    lines = "".join(f"+line {number}\n" for number in range(100))
    long = f"{HEADER}@@ -1,1 +1,101 @@\n x\n{lines}"
    shown = compare(group, long, long)
    assert len(shown) == 4 + 40 + 1
    assert shown[-1] == '  60 more lines: view_patch(candidate="c01", path=…)'


def test_only_one_of_two_names_is_a_mistake_that_is_told(group):
    workspace = Workspace(group, seed=0, repository=None)
    answer = asyncio.run(Toolbox(workspace, None).call("compare_patches", {"first": "c01"}))
    assert answer == "error: second is missing"


def test_files_that_come_go_or_hold_no_text_say_so(group):
    binary = "diff --git a/x.bin b/x.bin\nnew file mode 100644\nindex 0..1\nBinary files /dev/null and b/x.bin differ\n"
    gone = (
        "diff --git a/o.py b/o.py\ndeleted file mode 100644\n--- a/o.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    )
    changed = "diff --git a/o.py b/o.py\n--- a/o.py\n+++ b/o.py\n@@ -1 +1 @@\n-x\n+y\n"
    assert compare(group, binary + gone, binary + changed) == [
        "2 patches, 2 files",
        "file│o.py",
        " deleted by c01",
        " base lines 1-1: 2 ways",
        "  A: c01",
        "c01:o.py:-1│-x",
        "  B: c02",
        "c02:o.py:-1│-x",
        "c02:o.py:1│+y",
        "file│x.bin",
        " added (binary) by c01 c02",
    ]
