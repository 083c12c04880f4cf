"""The texts that joined files bring: patches wait in a temporary file, as a run's may be more than memory should hold."""

import os
import tempfile
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gagar_cli.io.formats.facts import Fact, Unit
from gagar_cli.io.formats.harbor import text_beside


class _Stored(NamedTuple):
    """Text kept in the spool."""

    offset: int
    length: int


class JoinTexts:
    """Patches, test outputs and test results of facts, on demand."""

    def __init__(self) -> None:
        self._spool: BinaryIO | None = None
        self._stored: dict[int, _Stored] = {}

    def close(self) -> None:
        """Give back the spool."""
        if self._spool is not None:
            self._spool.close()

    def keep(self, unit: Unit) -> None:
        """Put the patches of a unit into the spool."""
        for facts in [*unit.facts.values(), *unit.attempts.values()]:
            for fact in facts:
                if fact.model_patch:
                    if self._spool is None:
                        self._spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the dump
                    text = fact.model_patch.encode("utf-8", "replace")
                    offset = self._spool.seek(0, 2)
                    self._spool.write(text)
                    self._stored[id(fact)] = _Stored(offset, len(text))
                    fact.model_patch = None
        if self._spool is not None:
            self._spool.flush()

    def has(self, fact: Fact, name: str) -> bool:
        """Whether a fact says anything of a field."""
        if name == "infra_failure":
            return fact.infra_failure_reason is not None
        if name == "test_output" and fact.test_output_path is not None:
            return True
        return getattr(fact, name) is not None or (name == "model_patch" and id(fact) in self._stored)

    def find(self, fact: Fact, name: str) -> str | None:
        """The text of that name that a fact brings."""
        if name == "test_output" and fact.test_output_path is not None:
            return text_beside(Path(fact.test_output_path))
        if name == "model_patch" and id(fact) in self._stored and self._spool is not None:
            stored = self._stored[id(fact)]
            # Not seek and read: groups are read from several threads.
            return os.pread(self._spool.fileno(), stored.length, stored.offset).decode()
        value = getattr(fact, name)
        return value if isinstance(value, str) else None
