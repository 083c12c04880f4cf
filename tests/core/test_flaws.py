import ast
import json
import random
from importlib.resources import files
from pathlib import Path

import pytest

from gagar_cli.core.code_spots import find_functions, find_spots, is_in_function, is_test_path
from gagar_cli.core.flaws import FLAWS, plant_flaw, plant_flaws, reorder
from gagar_cli.core.patch import apply_file, parse_patch
from gagar_cli.core.patch_editing import append_section, new_file, read_editable

DEMO = Path(str(files("gagar_cli").joinpath("demo_data")))
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "swebench_groups.jsonl"

BASE = """import os


def total(values):
    result = 0
    for value in values:
        result += value
    return result


def name(path):
    return os.path.basename(path)
"""
PATCH = """diff --git a/src/a.py b/src/a.py
--- a/src/a.py
+++ b/src/a.py
@@ -3,9 +3,14 @@

 def total(values):
     result = 0
+    offset = len(values)
     for value in values:
         result += value
+    result -= offset
+    clean(values)
     return result


+def clean(values):
+    kept = [value for value in values if value]
+    return kept
+
+
 def name(path):
diff --git a/tests/test_a.py b/tests/test_a.py
new file mode 100644
--- /dev/null
+++ b/tests/test_a.py
@@ -0,0 +1,3 @@
+def test_total():
+    found = 3
+    assert found == 3
+    print(found)
"""
# Counts that are true; the text above is written for people.
PATCH = PATCH.replace("@@ -3,9 +3,14 @@", "@@ -3,9 +3,17 @@").replace("+1,3 @@", "+1,4 @@")


def test_a_patch_in_pieces_is_the_same_text():
    editable = read_editable(PATCH)
    assert editable.render() == PATCH
    assert [hunk.path for _, hunk in editable.hunks] == ["src/a.py", "tests/test_a.py"]


@pytest.mark.parametrize(
    "text",
    [
        PATCH.replace("+3,17", "+3,16"),
        PATCH.replace("-3,9", "-3,10"),
        "@@ -1 +1 @@\nx",
        "@@ -1,2 +1 @@\n-a\n+b\n",
    ],
    ids=["new count", "old count", "no marker", "too short"],
)
def test_a_hunk_that_is_not_as_its_header_says_is_refused(text):
    assert read_editable(text) is None


def test_hunks_behind_a_longer_one_move_along_in_their_file_only():
    patch = "--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-a\n+b\n@@ -9,1 +9,1 @@ here\n-c\n+d\n--- a/y\n+++ b/y\n@@ -9,1 +9,1 @@\n-e\n+f\n"
    editable = read_editable(patch)
    place, hunk = editable.hunks[0]
    longer = editable.with_lines(place, [*hunk.lines, "+more"]).render()
    assert "@@ -1,1 +1,2 @@\n-a\n+b\n+more\n@@ -9,1 +10,1 @@ here\n" in longer
    assert longer.endswith("@@ -9,1 +9,1 @@\n-e\n+f\n")


def test_a_new_file_is_a_section_that_parses():
    parsed = parse_patch(append_section(PATCH.rstrip("\n"), new_file("docs/x.md", ["a", "b"])))
    assert (parsed.files[-1].path, parsed.files[-1].n_added, parsed.problems) == ("docs/x.md", 2, ())


def test_spots_are_statements_of_their_own_with_what_they_bind():
    spots = [spot for spot in find_spots(read_editable(PATCH)) if not is_test_path(spot.path)]
    assert [(spot.text, spot.kind, spot.name) for spot in spots] == [
        ("offset = len(values)", "assignment", "offset"),
        ("result -= offset", "other", ""),
        ("clean(values)", "expression", ""),
        ("kept = [value for value in values if value]", "assignment", "kept"),
        ("return kept", "return", "kept"),
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ["+call(", "+    value,", "+)"],
        ['+"""A docstring."""', "+x = 1"],
        ["+@decorator", "+def f():", "+    pass"],
        ["+text = '''", "+x = 1", "+'''"],
    ],
    ids=["inside brackets", "docstring", "decorator", "inside a string"],
)
def test_what_is_part_of_something_larger_is_no_spot(lines):
    body = [" before = 1", *lines, " after = 1"]
    patch = f"--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,{len(body)} @@\n" + "\n".join(body) + "\n"
    texts = [spot.text for spot in find_spots(read_editable(patch))]
    assert not set(texts) & {"value,", "pass", '"""A docstring."""', "def f():"}
    if lines[1] == "+x = 1" and lines[0].startswith("+text"):
        assert "x = 1" not in texts


@pytest.mark.parametrize(
    ("above", "section", "is_inside"),
    [
        (["class Colour(Enum):"], "def f():", False),
        (["def f():"], "class Colour:", True),
        (["    x = 1"], "def f():", True),
        (["    x = 1"], "class Colour:", False),
        (["    x = 1"], "", False),
        (["class A:", "    def f(self):", "        if True:", "            pass"], "", True),
    ],
)
def test_a_class_is_no_function(above, section, is_inside):
    indent = " " * (4 + len(above[-1]) - len(above[-1].lstrip()) if above[-1].endswith(":") else 4)
    indent = " " * 8 if len(above) == 4 else indent
    lines = [*(f" {one}" for one in above), f"+{indent}red = 1", f" {indent}blue = 2"]
    n = len(lines)
    patch = f"--- a/x.py\n+++ b/x.py\n@@ -1,{n - 1} +1,{n} @@ {section}\n" + "\n".join(lines) + "\n"
    editable = read_editable(patch)
    spot = next(one for one in find_spots(editable) if one.text == "red = 1")
    assert is_in_function(editable, spot) is is_inside
    assert (plant_flaw(patch, "bad_style", seed=0) is not None) is is_inside


def test_a_larger_rewrite_says_the_same_by_way_of_one_more_name():
    planted = plant_flaw(PATCH, "larger_rewrite", seed=0)
    assert "-    result = 0\n+    rewritten_result = 0\n+    result = rewritten_result\n" in planted
    assert "-    return result\n+    rewritten_result = result\n+    return rewritten_result\n" in planted


def test_a_function_that_is_added_whole_is_found():
    assert [one.name for one in find_functions(read_editable(PATCH))] == ["clean"]


@pytest.mark.parametrize("kind", FLAWS)
def test_every_kind_can_be_planted_applies_and_leaves_python_that_compiles(kind):
    planted = plant_flaw(PATCH, kind, seed=3)
    assert planted is not None
    assert planted == plant_flaw(PATCH, kind, seed=3)
    before, after = parse_patch(PATCH), parse_patch(planted)
    assert after.problems == ()
    bases = {"src/a.py": BASE}
    for file in after.files:
        if file.path.endswith(".py"):
            ast.parse(apply_file(file, bases.get(file.path)))
    assert after.n_added + after.n_removed > before.n_added + before.n_removed or kind == "weakened_test"


def test_flaws_stack():
    planted = plant_flaws(PATCH, ["debug_print", "scratch_file", "dead_code"], seed=0)
    assert planted.kinds == ("debug_print", "scratch_file", "dead_code")
    assert 'print("DEBUG' in planted.patch
    assert "reproduce_issue.py" in planted.patch
    assert "if False:" in planted.patch
    assert plant_flaws("", ["debug_print"], seed=0) is None


def test_files_in_another_order_are_the_same_change():
    reordered = reorder(PATCH)
    assert [file.path for file in parse_patch(reordered).files] == ["tests/test_a.py", "src/a.py"]
    assert reorder(reordered) == PATCH
    assert reorder(PATCH[: PATCH.index("diff --git a/tests")]) is None


def test_a_patch_without_a_place_gets_no_flaw():
    other = "--- a/x.c\n+++ b/x.c\n@@ -1,1 +1,1 @@\n-int a;\n+int b;\n"
    assert plant_flaw(other, "dead_code", seed=0) is None
    assert plant_flaw(other, "scratch_file", seed=0) is not None
    assert plant_flaw("not a patch", "scratch_file", seed=0) is None


def _demo_patches() -> list[tuple[str, str]]:
    records = [json.loads(line) for line in (DEMO / "demo-rollouts.jsonl").read_text().splitlines()]
    return [
        (one["trajectory_id"], one["model_patch"])
        for one in records
        if one["resolved"] and one["model_patch"]
    ]


@pytest.mark.parametrize("kind", FLAWS)
def test_flaws_in_the_demos_patches_apply_to_its_repository(kind):
    root = next((DEMO / "repositories").iterdir())
    n_planted = 0
    for name, patch in _demo_patches():
        planted = plant_flaw(patch, kind, seed=1)
        for file in parse_patch(planted or "").files:
            base = root / (file.old_path or "-")
            text = (
                apply_file(file, base.read_text() if base.is_file() else None)
                if file.change != "deleted"
                else ""
            )
            if file.path.endswith(".py"):
                compile(text, f"{name}:{file.path}", "exec")
        n_planted += planted is not None
    assert n_planted > 0 or kind in ("special_case", "weakened_test")


@pytest.mark.shared
def test_flaws_in_real_patches_apply_without_a_problem():
    if not SHARED.exists():
        pytest.skip("the reference data is not here")
    patches = {
        one["model_patch"]
        for line in SHARED.read_text().splitlines()
        for one in json.loads(line)["attempts"]
        if one["resolved"] and one["model_patch"]
    }
    chosen = random.Random(0).sample(sorted(patches), 120)
    n_planted = 0
    for patch in chosen:
        for kind in FLAWS:
            planted = plant_flaw(patch, kind, seed=0)
            if planted is not None:
                n_planted += 1
                assert parse_patch(planted).problems == ()
                removed = [
                    line.text for file in parse_patch(planted).files for h in file.hunks for line in h.lines
                ]
                kept = [
                    line.text for file in parse_patch(patch).files for h in file.hunks for line in h.lines
                ]
                assert len(removed) >= len(kept)
    assert n_planted > 600
