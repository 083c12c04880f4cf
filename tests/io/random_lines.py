"""Random and long JSON lines for tests of whatever reads them by their ends."""

import json
import random
from collections.abc import Mapping
from typing import Any

import pytest

NAMES = ("group_id", "trajectory_id", "reward", "resolved", "step")
COUNTED = pytest.mark.parametrize("n_objects", [3000, pytest.param(60_000, marks=pytest.mark.slow)])
"""How many random objects a test takes."""
BITS = (
    "plain text ", '"', "\\", "{", "}", "[", "]", ",", ": ", ', "reward": 0}', '"reward"', "\\u0072eward", "é", "\u2028",
    "\n", "\t", "\x1b", "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"), "</s>", '{"step": 3}',
)  # fmt: skip


class Writer:
    """Writes random objects in random ways."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def text(self) -> str:
        return "".join(
            self.draw.choice(BITS) for _ in range(self.draw.randrange(self.draw.choice((3, 3, 60))))
        )

    def value(self, depth: int = 2) -> Any:
        draw = self.draw
        scalars = [self.text(), draw.randrange(10**6), draw.random(), -0.0, 1e300, True, False, None, 10**25]
        if depth == 0 or draw.random() < 0.5:
            return draw.choice(scalars)
        if draw.random() < 0.5:
            return [self.value(depth - 1) for _ in range(draw.randrange(4))]
        keys = draw.sample((*NAMES, "role", "content", "arguments"), draw.randrange(4))
        return {key: self.value(depth - 1) for key in keys}

    def record(self) -> dict[str, Any]:
        draw = self.draw
        record: dict[str, Any] = {name: self.value(0) for name in NAMES if draw.random() < 0.8}
        record |= {"messages": [self.value() for _ in range(draw.randrange(6))], "patch": self.text()}
        for name in ("a", "b.c", 'q"', "ключ", "reward_2"):
            if draw.random() < 0.3:
                record[name] = self.value()
        return record

    def line(self, record: Mapping[str, Any]) -> bytes:
        draw = self.draw
        keys = list(record)
        order = draw.random()
        if order < 0.4:
            draw.shuffle(keys)
        separators = draw.choice(((",", ":"), (", ", ": "), (" , ", " :\t")))
        text = json.dumps(
            {key: record[key] for key in keys}, ensure_ascii=draw.random() < 0.5, separators=separators
        )
        if draw.random() < 0.05:
            text = text.replace('"reward"', '"rew\\u0061rd"')
        if draw.random() < 0.03:
            text = text[:-1] + ', "reward": 7}'
        return draw.choice((b"", b" ")) + text.encode() + draw.choice((b"", b"", b" ", b"\r"))


def long_line(**more: Any) -> bytes:
    record = {"group_id": "g", "messages": [{"role": "user", "content": "x" * 9000}], "reward": 1.0, **more}
    return json.dumps(record).encode()


def members(text: bytes) -> list[tuple[str, Any]]:
    """The members of an object with every number as it is written."""
    return json.loads(text.decode(), parse_int=str, parse_float=str, object_pairs_hook=list)
