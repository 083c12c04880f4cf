import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.comparisons import leave_out_comparisons
from gagar_cli.core.patch import parse_patch


def added(*lines: str) -> str:
    body = "".join(f"+{line}\n" for line in lines)
    return f"diff --git a/a.py b/a.py\nnew file mode 100644\n--- /dev/null\n+++ b/a.py\n@@ -0,0 +1,{len(lines)} @@\n{body}"


def changed(text: str) -> list[str]:
    """The lines that a probe's patch has in place of others."""
    probe = leave_out_comparisons(text).text
    assert probe.count("\n") == text.count("\n")
    assert not parse_patch(probe).problems
    return [new for old, new in zip(text.splitlines(), probe.splitlines(), strict=True) if old != new]


@pytest.mark.parametrize(
    ("lines", "becomes"),
    [
        (("def __eq__(self, other):", "  return True"), ["+def _left_out_eq(self, other):"]),
        (("def __ne__(self, o):", "  x = self.a", "  return x > 1"), ["+def _left_out_ne(self, o):"]),
        (("def __contains__(self, key):", "  return len(self)"), ["+def _left_out_contains(self, key):"]),
        (("def __bool__(self):", "  return True"), ["+def _left_out_bool(self):"]),
        (("A.__eq__ = lambda a, b: 1",), ["+A._left_out_eq = lambda a, b: 1"]),
        (("def __eq__(self, o): return bool(self)",), ["+def _left_out_eq(self, o): return bool(self)"]),
        (
            ("def __eq__(self, o):", '  """Whether o is this."""', "  x = 1  # of o", "  # o", "  return x"),
            ["+def _left_out_eq(self, o):"],
        ),
        (
            ("def __eq__(self, o):", "  '''Tells", "  o apart.", "  '''", "  return True"),
            ["+def _left_out_eq(self, o):"],
        ),
    ],
)
def test_a_method_that_heeds_nothing_is_left_out(lines: tuple[str, ...], becomes: list[str]) -> None:
    assert changed(added(*lines)) == becomes


@pytest.mark.parametrize(
    "lines",
    [
        ("def __eq__(self, other):", "  return self.a == other.a"),
        ("def __eq__(self, other):", "  if type(self) is not type(other):", "    return NotImplemented"),
        ("def __eq__(self, other):", "  return NotImplemented"),
        ("def __eq__(self, other):", "  raise TypeError"),
        ("def __eq__(self, o): return self.a == o.a",),
        ("__eq__ = lambda self, other: self.a == other.a",),
        ("def __bool__(self):", "  return self.a > 0"),
        ("def equal(self, other):", "  return True"),
        ("def __eq__(self, other):", "  # else return True", "  return self.a == other.a"),
        ("def __eq__(self, other):", '  """May', "  return True.", '  """', "  return self.a == other.a"),
    ],
)
def test_a_method_that_compares_is_kept(lines: tuple[str, ...]) -> None:
    assert changed(added(*lines)) == []


def test_the_answer_of_a_method_that_was_there_declines() -> None:
    patch = (
        "--- a/a.py\n+++ b/a.py\n@@ -7,2 +7,2 @@\n   def __eq__(self, other):\n-    return self.a == other.a\n"
        "+    return True\n"
    )
    assert changed(patch) == ["+    return NotImplemented"]
    assert [one.line for one in leave_out_comparisons(patch).left_out] == [7]


def test_an_answer_that_cannot_decline_is_kept() -> None:
    patch = (
        "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def __bool__(self):\n-  return self.a\n+  return True\n"
    )
    assert changed(patch) == []
    assert leave_out_comparisons(patch).left_out == ()


def test_a_body_that_goes_on_behind_the_hunk_is_kept() -> None:
    patch = "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,3 @@\n def __eq__(self, other):\n+  x = self\n   y = self\n"
    assert changed(patch) == []


def test_every_file_and_hunk_is_searched_and_the_rest_is_untouched() -> None:
    tail = "@@ -9 +11,3 @@\n z\n+def __ne__(self, o):\n+  return False\n"
    first = added("def __eq__(self, o):", "  return True")
    second = (
        first.replace("a.py", "b.py").replace("__eq__", "__hash__")
        + "--- a/c\n+++ b/c\n@@ -1 +1,2 @@\n y\n+x\n"
        + tail
    )
    assert changed(first + second) == ["+def _left_out_eq(self, o):", "+def _left_out_ne(self, o):"]
    assert [(one.path, one.line) for one in leave_out_comparisons(first + second).left_out] == [
        ("a.py", 1),
        ("c", 12),
    ]


@given(st.text(), st.text(alphabet="+- @\n_eqdf():,rtunTs", max_size=60))
def test_no_patch_is_too_strange(text: str, body: str) -> None:
    leave_out_comparisons(text)
    leave_out_comparisons("--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n+def __eq__(self, o):\n" + body + text)
