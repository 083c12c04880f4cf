"""Joining: verdicts, patches and test outputs from other files, laid over the records of a dump by instance and run.

A report of one run must not speak about another one. With one run in the dump every file is about it; with several, a
file is about the run that it lies nearest to, else the one it names (itself or by its path); where that is not one,
it is used for nothing and named. The dump's own verdict stands where both have one: conflicts are counted and shown.
"""

import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from gagar_cli.core.text import counted, escape_untrusted
from gagar_cli.errors import InputError
from gagar_cli.io.formats.facts import Fact, Unit
from gagar_cli.io.formats.harbor import text_beside
from gagar_cli.io.join_units import short_name, units_of
from gagar_cli.io.records import MISSING, Fields
from gagar_cli.io.streams import show_path

_MAX_SHOWN = 3
KEYS = ("instance_id", "group_id", "trajectory_id", "step", "attempt", "resolved", "reward", "infra_failure")
"""Columns that joining needs, for readers that choose columns."""


class _Stored(NamedTuple):
    """Text kept in the spool."""

    offset: int
    length: int


class Joins:
    """What all `--join` files say, and how much of it found its attempt."""

    def __init__(
        self, paths: Sequence[str], runs: Sequence[str], pass_threshold: float | None = None
    ) -> None:
        """Read the files. `pass_threshold` None: every verdict that is not there yet is awaited, and null so long."""
        self._pass_threshold = pass_threshold
        self._runs = tuple(dict.fromkeys(runs))
        """Run directories of the dump; empty for one that has none."""
        self._spool: BinaryIO | None = None
        self._texts: dict[int, _Stored] = {}
        self._used: dict[int, tuple[str, str]] = {}
        """What has found its attempt: the attempt's id and place."""
        self._shared: list[str] = []
        self._n_shared = 0
        self._n_without = 0
        self._without: list[str] = []
        self._conflicts: list[str] = []
        self._n_conflicts = 0
        self._ambiguous: list[str] = []
        self._units: dict[str | None, list[Unit]] = {}
        for path in paths:
            units = list(units_of(path))
            if not units:
                raise InputError(
                    f"{show_path(path)}: nothing to join in it",
                    "expected a report, predictions, test logs, or rows with instance_id or trajectory_id and any of "
                    "resolved, reward, model_patch, test_output",
                )
            self._assign(units)
        assigned = [unit for each in self._units.values() for unit in each]
        self._has_verdicts = any(unit.has_verdicts for unit in assigned)
        self._n_by_reward = 0

    def close(self) -> None:
        """Give back the spool."""
        if self._spool is not None:
            self._spool.close()

    def overlay(
        self, record: dict[str, Any], fields: Fields, *, run: str | None, where: str | None = None
    ) -> dict[str, Any]:
        """The record of a run with what the joined files know and it does not; counted where a place is given."""
        instance_id = fields.find(record, "instance_id")
        if instance_id is MISSING or instance_id is None:
            instance_id = fields.find(record, "group_id")
        facts = self._facts(record, fields, str(instance_id), run)
        made = dict(record)
        if not facts and where is not None:
            self._n_without += 1
            if len(self._without) < _MAX_SHOWN:
                self._without.append(
                    f"{where} ({escape_untrusted(str(instance_id), keep_newlines=False)[:80]})"
                )
        for fact, source in facts:
            if where is not None:
                self._note_use(fact, source, record, fields, where)
            self._lay(made, fact, fields, where=f"{where} against {source}" if where is not None else "")
        if fields.find(made, "resolved") is MISSING:
            self._settle(made, fields, is_counted=where is not None)
        return made

    def _settle(self, record: dict[str, Any], fields: Fields, *, is_counted: bool) -> None:
        """What stands of a record without a verdict: its reward, else null.

        A verdict anywhere in a file makes the others count as not evaluated: beside verdicts, what the reward comes to
        is told as one. Where none is joined, records that have a reward are judged as if nothing was joined.
        """
        reward = fields.find(record, "reward")
        is_out = any(fields.find(record, name) is True for name in ("infra_failure", "mask_sample"))
        paid = float(reward) if isinstance(reward, int | float) else math.nan
        if self._pass_threshold is None or (self._has_verdicts and (is_out or math.isnan(paid))):
            record["resolved"] = None
        elif self._has_verdicts:
            record["resolved"] = paid >= self._pass_threshold
            self._n_by_reward += is_counted
        elif reward is MISSING and not is_out:
            record["resolved"] = None

    def refuse_shared(self) -> None:
        """What is said of one attempt and would go to several.

        Raises:
            InputError: with the first places.
        """
        if self._n_shared:
            more = f" and {self._n_shared - len(self._shared):,} more" if self._n_shared > _MAX_SHOWN else ""
            raise InputError(
                "\n".join(self._shared) + more,
                "rows with `trajectory_id` or `attempt`, and with `group_id` and `step`, say which one; attempts of several runs belong into a folder a run",
            )

    def _note_use(
        self, fact: Fact, source: str, record: Mapping[str, Any], fields: Fields, where: str
    ) -> None:
        if not fact.is_of_one:
            return
        trajectory_id = fields.find(record, "trajectory_id")
        name = where if trajectory_id in (MISSING, None) else str(trajectory_id)
        if fact.is_by_trajectory:
            # The same name may be in several groups, and come back at every step.
            name = repr([str(fields.find(record, each)) for each in ("step", "group_id")])
        attempt = (name, where)
        first = self._used.setdefault(id(fact), attempt)
        # Segments of one attempt share what is said of it.
        if (fact.trajectory_id is None or fact.is_by_trajectory) and first[0] != attempt[0]:
            self._n_shared += 1
            if len(self._shared) < _MAX_SHOWN:
                self._shared.append(
                    f"{where}: {source} says one thing about this attempt and the one at {first[1]}"
                )

    def notes(self) -> Iterator[str]:
        """What did not fit together, the first ones by name."""
        yield from self._ambiguous
        if self._n_without:
            yield f"--join: {counted(self._n_without, 'record')} found nothing to join: {', '.join(self._without)}"
        if self._n_by_reward:
            yield f"--join: {counted(self._n_by_reward, 'record has', 'records have')} no verdict in the joined files: by reward"
        unused = [
            f"{short_name(unit)} ({escape_untrusted(name, keep_newlines=False)[:80]})"
            for units in self._units.values()
            for unit in units
            for name, facts in [*unit.facts.items(), *unit.attempts.items()]
            if not any(id(fact) in self._used for fact in facts)
        ]
        if unused:
            yield f"--join: {counted(len(unused), 'entry is', 'entries are')} about no record of the dump: {', '.join(unused[:_MAX_SHOWN])}"
        if self._n_conflicts:
            shown = "; ".join(self._conflicts)
            yield f"--join: {counted(self._n_conflicts, 'verdict contradicts', 'verdicts contradict')} the one that stands: {shown}"

    def _assign(self, units: Sequence[Unit]) -> None:
        for unit in units:
            run = self._run_of(unit, n_named=sum(each.run is not None for each in units))
            if run is MISSING:
                if unit.run is None:
                    self._ambiguous.append(
                        f"--join: {unit.source} is used for nothing: it lies nearest to no single run of the dump"
                    )
                continue
            self._keep_texts(unit)
            self._units.setdefault(run if isinstance(run, str) else None, []).append(unit)
        n_lost = [
            unit.run for unit in units if unit.run is not None and self._run_of(unit, n_named=2) is MISSING
        ]
        if n_lost and len(units) > 1:
            named = ", ".join(
                escape_untrusted(str(each), keep_newlines=False) for each in n_lost[:_MAX_SHOWN]
            )
            self._ambiguous.append(
                f"--join: {units[0].source}: {len(n_lost)} runs are not in the dump: {named}"
            )

    def _run_of(self, unit: Unit, *, n_named: int) -> object:
        """The run that a unit is about: a directory, None for any, `MISSING` where it cannot be told."""
        if not self._runs:
            return None if n_named <= 1 else MISSING
        if unit.run is not None:
            found = [run for run in self._runs if _are_alike(unit.run, Path(run).name)]
            if len(found) == 1:
                return found[0]
            return None if len(self._runs) == 1 and n_named == 1 else MISSING
        if len(self._runs) == 1:
            return None
        parts = Path(unit.path).resolve().parts
        depths = [_n_common(parts, Path(run).resolve().parts) for run in self._runs]
        if depths.count(max(depths)) == 1:
            return self._runs[depths.index(max(depths))]
        names = [*parts[:-1], *Path(parts[-1]).name.split(".")]
        found = [run for run in self._runs if any(_are_alike(name, Path(run).name) for name in names)]
        return found[0] if len(found) == 1 else MISSING

    def _facts(
        self, record: Mapping[str, Any], fields: Fields, instance_id: str, run: str | None
    ) -> list[tuple[Fact, str]]:
        trajectory_id = fields.find(record, "trajectory_id")
        attempt = record.get("attempt")
        found: list[tuple[Fact, str]] = []
        for unit in [*self._units.get(run, ()), *(self._units.get(None, ()) if run is not None else ())]:
            for fact in unit.facts.get(instance_id, ()):
                if fact.trajectory_id is not None and fact.trajectory_id != str(trajectory_id):
                    continue
                if fact.attempt is not None and attempt is not None and fact.attempt != attempt:
                    continue
                found.append((fact, short_name(unit)))
            for fact in unit.attempts.get(str(trajectory_id), ()):
                told = (("group_id", fact.group_id), ("step", fact.step), ("attempt", fact.attempt))
                if all(value is None or _is_same(fields.find(record, name), value) for name, value in told):
                    found.append((fact, short_name(unit)))
            if unit.are_others_unresolved and instance_id not in unit.facts:
                found.append((Fact(resolved=False, is_of_one=False), short_name(unit)))
        return found

    def _lay(self, record: dict[str, Any], fact: Fact, fields: Fields, *, where: str) -> None:
        if fact.infra_failure_reason and record.get("infra_failure") is not True:
            record["infra_failure"] = True
            record["infra_failure_reason"] = fact.infra_failure_reason
        if fact.resolved is not None:
            own = fields.find(record, "resolved")
            if own is MISSING or own is None:
                record["resolved"] = fact.resolved
            elif own is not fact.resolved and where:
                self._n_conflicts += 1
                if len(self._conflicts) < _MAX_SHOWN:
                    self._conflicts.append(f"{where} (stands: {str(own).lower()})")
        if fact.reward is not None and fields.find(record, "reward") in (MISSING, None):
            record["reward"] = fact.reward
        for name in ("model_patch", "test_output", "tests_status"):
            if fields.find(record, name) in (MISSING, None) and (text := self._text(fact, name)) is not None:
                record[name] = text

    def _text(self, fact: Fact, name: str) -> str | None:
        if name == "test_output" and fact.test_output_path is not None:
            return text_beside(Path(fact.test_output_path))
        if name == "model_patch" and id(fact) in self._texts and self._spool is not None:
            stored = self._texts[id(fact)]
            # Not seek and read: groups are read from several threads.
            return os.pread(self._spool.fileno(), stored.length, stored.offset).decode()
        value = getattr(fact, name)
        return value if isinstance(value, str) else None

    def _keep_texts(self, unit: Unit) -> None:
        """Patches go to a temporary file: a run's predictions may be larger than memory should hold."""
        for facts in [*unit.facts.values(), *unit.attempts.values()]:
            for fact in facts:
                if fact.model_patch:
                    if self._spool is None:
                        self._spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the dump
                    text = fact.model_patch.encode("utf-8", "replace")
                    offset = self._spool.seek(0, 2)
                    self._spool.write(text)
                    self._texts[id(fact)] = _Stored(offset, len(text))
                    fact.model_patch = None
        if self._spool is not None:
            self._spool.flush()


def _is_same(value: object, told: object) -> bool:
    """Whether a record's value is the one that a joined row names; a record without it may be meant."""
    return value is MISSING or value is None or str(value) == str(told)


def _n_common(first: Sequence[str], second: Sequence[str]) -> int:
    n = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        n += 1
    return n


def _are_alike(name: str, run: str) -> bool:
    """Whether a name is a run's, or its ending or beginning at a border."""
    shorter, longer = sorted((name.lower(), run.lower()), key=len)
    if not shorter:
        return False
    if shorter == longer:
        return True
    borders = "_-. "
    return len(shorter) > 2 and (
        (longer.endswith(shorter) and longer[-len(shorter) - 1] in borders)
        or (longer.startswith(shorter) and longer[len(shorter)] in borders)
    )
