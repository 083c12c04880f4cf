"""What a table does with names and widths that nobody foresaw."""

import io

from rich.console import Console

from gagar_cli.tables import key_value_table, rows_table


def shown(table: object, width: int) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(table)
    return stream.getvalue()


def test_what_is_too_wide_is_folded_and_nothing_is_cut():
    rows = [("weighted score", "4.92", "-0.17 [-0.39, +0.04]", "0.1016")]
    table = rows_table("t", ("", "a-policy-with-a-long-name-" * 4, "difference", "p"), rows, numeric=(1, 3))
    for width in (120, 60):
        text = shown(table, width)
        assert all(part in text for part in ("weighted", "4.92", "-0.17", "[-0.39,", "+0.04]", "0.1016"))
        assert max(map(len, text.splitlines())) <= width
    assert "-0.17 [-0.39, +0.04]" in shown(table, 100)


def test_names_in_titles_and_headers_cannot_style_or_move_anything():
    hostile = "a\x1b[31m[red]b\u202e"
    for table in (
        rows_table(hostile, (hostile,), [("x",)]),
        key_value_table(hostile, [("name", "value")]),
    ):
        text = shown(table, 80).replace("\n", "")
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert r"a\u{1b}[31m[red]b\u{202e}" in text
