"""The two ends of lines, and names that are looked for between them."""

import pytest

from gagar_cli.io import jsonl_edges
from gagar_cli.io.jsonl_edges import NameFinder, find_edges


def test_other_names_than_plain_ones_are_not_looked_for() -> None:
    assert NameFinder(["reward", "meta.task_type"]).is_able
    assert not NameFinder(["a/b"]).is_able
    assert not NameFinder(["é"]).is_able


def test_edges_need_a_scalar_before_the_brace() -> None:
    line = b'{"a": 1, "messages": ["' + b"x" * 9000 + b'"]}'
    assert find_edges(line, 0, len(line)) is None


def test_ends_of_a_line_that_is_all_scalars_do_not_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_edges, "MIN_LINE_BYTES", 40)
    line = b'{"reward": 1.0, "text": "' + b"x" * 40 + b'", "step": 2}'
    assert find_edges(line, 0, len(line)) is None
