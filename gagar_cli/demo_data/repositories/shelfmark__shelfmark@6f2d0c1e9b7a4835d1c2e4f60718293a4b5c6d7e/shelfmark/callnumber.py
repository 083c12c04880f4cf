"""Dewey call numbers: `823.914 ISH` and how they sort on the shelf."""

import re
from typing import NamedTuple

_CALL_NUMBER = re.compile(r"(\d{3})(?:\.(\d+))?(?:\s+([A-Z]{1,4}))?(?:\s+v\.(\d+))?")


class CallNumber(NamedTuple):
    """A parsed call number; its natural order is the order on the shelf."""

    division: int
    decimals: str
    mark: str
    volume: int

    def __str__(self):
        text = f"{self.division:03d}"
        if self.decimals:
            text += f".{self.decimals}"
        if self.mark:
            text += f" {self.mark}"
        if self.volume:
            text += f" v.{self.volume}"
        return text


def parse_call_number(text):
    """Read a call number; raises ValueError if it is none."""
    match = _CALL_NUMBER.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a call number: {text!r}")
    division, decimals, mark, volume = match.groups()
    return CallNumber(int(division), decimals or "", mark or "", int(volume or 0))


def shelve(records):
    """Records in the order in which they stand on the shelf."""
    return sorted(records, key=lambda record: (record.call_number, record.title))
