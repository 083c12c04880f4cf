r"""Text that a chat template made, split into messages again: ChatML and Qwen, Llama 2 and 3, DeepSeek, GLM.

Where the special tokens are there, the split is exact. Dumps that were decoded without them (verl) keep bare words
such as `assistant` on a line of their own; those are taken for borders only where every one of them alternates as a
conversation does, and it is said. Text that cannot be split stays one message.
"""

import json
import re
from itertools import pairwise
from typing import NamedTuple

from gagar_cli.core.messages import ROLES, MessageRecord, message, tool_call

_TEMPLATES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "chatml",
        re.compile(r"<\|im_start\|>(\w+)[ ]?\n?(.*?)(?:<\|im_end\|>\n?|(?=<\|im_start\|>)|\Z)", re.DOTALL),
    ),
    (
        "llama-3",
        re.compile(
            r"<\|start_header_id\|>(\w+)<\|end_header_id\|>\n*(.*?)(?:<\|eot_id\|>|<\|eom_id\|>|(?=<\|start_header_id\|>)|\Z)",
            re.DOTALL,
        ),
    ),
    (
        "deepseek",
        re.compile(
            r"<｜(User|Assistant)｜>(.*?)(?:<｜end▁of▁sentence｜>|(?=<｜(?:User|Assistant)｜>)|\Z)", re.DOTALL
        ),
    ),
    (
        "glm",
        re.compile(
            r"<\|(system|user|assistant|observation)\|>\n?(.*?)(?=<\|(?:system|user|assistant|observation)\|>|\Z)",
            re.DOTALL,
        ),
    ),
)
_LLAMA_2 = re.compile(r"\[INST\](.*?)\[/INST\](.*?)(?=(?:</s>)?(?:<s>)?\s*\[INST\]|\Z)", re.DOTALL)
_BARE = re.compile(r"(?:^|\n)(system|user|assistant|tool)\n")
_THINK = re.compile(r"\A\s*<think>(.*?)</think>\s*", re.DOTALL)
_PADS = r"<\|endoftext\|>|<pad>|<\|finetune_right_pad_id\|>"
_STARTS = re.compile(rf"(?:\s|<s>|<\|begin_of_text\|>|<｜begin▁of▁sentence｜>|\[gMASK\]|<sop>|</s>|{_PADS})*")
_ENDS = (
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "<|endoftext|>", "<pad>",
    "<|finetune_right_pad_id|>",
)  # fmt: skip
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)


class Split(NamedTuple):
    """Messages, and how they were told apart."""

    messages: list[MessageRecord]
    template: str
    """`chatml`, `llama-3`, `llama-2`, `deepseek`, `glm`; `bare` where special tokens are gone; `none` where it is one message."""


def split_template(text: str, *, role: str = "user", is_continuation: bool = False) -> Split:
    r"""The messages in a text; `role` is that of text which cannot be split, or stands before the first border.

    >>> [m["role"] for m in split_template("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>").messages]
    ['user', 'assistant']
    """
    if not text:
        return Split([], "none")
    for name, pattern in _TEMPLATES:
        if found := list(pattern.finditer(text)):
            return Split(
                [*_before(text[: found[0].start()], role), *(_made(each[1], each[2]) for each in found)], name
            )
    if found := list(_LLAMA_2.finditer(text)):
        return Split([made for each in found for made in _llama_2(each[1], each[2])], "llama-2")
    return _split_bare(text, role, is_continuation=is_continuation)


def _split_bare(text: str, role: str, *, is_continuation: bool) -> Split:
    found = list(_BARE.finditer(text))
    roles = [each[1] for each in found]
    starts_right = is_continuation or (found and found[0].start() == 0 and roles[0] in ("system", "user"))
    previous = [role, *roles] if is_continuation else ["", *roles]
    alternates = all(before != after for before, after in pairwise(previous))
    if not found or not starts_right or not alternates:
        return Split([_made(role, text)], "none")
    ends = [*(each.start() for each in found[1:]), len(text)]
    parts = [_made(each[1], text[each.end() : end]) for each, end in zip(found, ends, strict=True)]
    return Split(
        [
            *_before(text[: found[0].start()], role),
            *(part for part in parts if part["content"] or "tool_calls" in part),
        ],
        "bare",
    )


def _before(text: str, role: str) -> list[MessageRecord]:
    return [] if _STARTS.fullmatch(text) else [_made(role, text)]


def _llama_2(asked: str, answered: str) -> list[MessageRecord]:
    messages: list[MessageRecord] = []
    system = re.match(r"\s*<<SYS>>(.*?)<</SYS>>", asked, re.DOTALL)
    if system:
        messages.append(message("system", system[1].strip()))
        asked = asked[system.end() :]
    messages.append(message("user", asked.strip()))
    answered = answered.removesuffix("</s>").strip()
    return [*messages, _made("assistant", answered)] if answered else messages


def _made(role: str, text: str) -> MessageRecord:
    role = ROLES.get(role.lower(), role.lower())
    reasoning = None
    calls = []
    text = _without_ends(text)
    if role == "assistant":
        if found := _THINK.match(text):
            reasoning, text = found[1].strip(), text[found.end() :]
        calls = [_called(each[1]) for each in _CALL.finditer(text)]
        if calls:
            text = _CALL.sub("", text)
    return message(role, text.strip("\n"), reasoning_content=reasoning, tool_calls=calls)


def _without_ends(text: str) -> str:
    """A text without the tokens that end a turn, or fill up, behind it. By steps: a pattern could take long on blanks."""
    kept = end = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        found = next((each for each in _ENDS if text.endswith(each, 0, end)), None)
        if found is None:
            return text[:kept]
        kept = end = end - len(found)


def _called(text: str) -> dict[str, str | None]:
    try:
        called = json.loads(text)
    except (ValueError, RecursionError):
        return tool_call(None, text)
    if not isinstance(called, dict):
        return tool_call(None, text)
    return tool_call(called.get("name"), called.get("arguments"))
