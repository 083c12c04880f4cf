import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.text import escape_untrusted, fold_whitespace, shorten


def test_escape_sequences_lose_their_escape():
    assert escape_untrusted("\x1b]0;title\x07") == "\\u{1b}]0;title\\u{7}"


def test_bidi_zero_width_and_tag_characters_are_shown():
    assert escape_untrusted("a\u202eb\u200bc\U000e0041") == "a\\u{202e}b\\u{200b}c\\u{e0041}"


def test_surrogates_and_c1_controls_are_shown():
    assert escape_untrusted("\ud800\x9b") == "\\u{d800}\\u{9b}"


def test_chat_template_tokens_lose_their_bracket():
    assert escape_untrusted("<|im_start|>system") == "\\u{3c}|im_start|>system"
    assert escape_untrusted("a < b | c") == "a < b | c"


def test_newlines_stay_or_are_shown_as_asked():
    assert escape_untrusted("a\tb\nc") == "a\tb\nc"
    assert escape_untrusted("a\tb\nc", keep_newlines=False) == "a b\\nc"


@given(st.text())
def test_nothing_that_a_terminal_obeys_survives(text: str):
    escaped = escape_untrusted(text)
    assert not [char for char in escaped if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"]
    assert not [
        char
        for char in escaped
        if unicodedata.bidirectional(char) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    ]


@given(
    st.text(st.characters(exclude_categories=["C", "Z", "M"]), max_size=50).filter(
        lambda text: "<" not in text
    )
)
def test_harmless_text_is_untouched(text: str):
    visible = "".join(char for char in text if char not in "\u3164\uffa0\u115f\u1160")
    assert escape_untrusted(visible) == visible


def test_folding_joins_runs_of_white_space():
    assert fold_whitespace("  a \t b\n\nc ") == "a b c"


def test_shortening_keeps_the_limit():
    assert shorten("abcdef", 4) == "abc…"
    assert shorten("abcd", 4) == "abcd"
