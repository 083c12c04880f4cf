import pytest

from gagar_cli.core.kinship import find_kin


@pytest.mark.parametrize(
    ("judge", "name", "word"),
    [
        ("openai/gpt-5", "20240402_sweagent_gpt4", "gpt"),
        ("claude-opus-4", "anthropic/claude-sonnet-4-5", "claude"),
        ("Qwen3-Coder", "qwen2.5-coder-32b", "qwen"),
        ("MiMo-Flash", "mimo-7b-rl", "mimo"),
    ],
)
def test_a_judge_of_a_policys_family_is_found(judge, name, word):
    assert find_kin(judge, [name]) == [(name, word)]


@pytest.mark.parametrize(
    ("judge", "name"),
    [("gpt-5-mini", "step-100-mini"), ("deepseek-coder", "qwen2.5-coder"), ("offline", "old"), ("m", "m")],
)
def test_common_words_make_no_family(judge, name):
    assert find_kin(judge, [name]) == []
