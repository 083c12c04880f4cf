import pytest

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox.launcher import encode_patch, launch_arguments, read_launch


def test_the_first_line_of_stderr_is_the_launchers():
    assert read_launch(b"ready\nready\nrefused\n") == (True, b"ready\nrefused\n")
    assert read_launch(b"bwrap: no") == (False, b"bwrap: no")


def test_a_refusal_is_one_printable_line():
    with pytest.raises(SandboxError) as caught:
        read_launch(b"refused\nerror: a\x1b[2J\nerror: b\n")
    assert caught.value.message == "the checkout cannot be made: error: a\\u{1b}[2J; error: b"


@pytest.mark.parametrize(
    ("patch", "encoded"), [("", b""), (" \n\n", b""), ("a", b"a\n"), ("a\n", b"a\n"), ("\udcff", b"\xff\n")]
)
def test_a_patch_ends_with_a_newline(patch, encoded):
    assert encode_patch(patch) == encoded


def test_the_command_comes_last_and_untouched():
    assert launch_arguments(["a b", "$c"], has_patch=False)[-2:] == ["a b", "$c"]
