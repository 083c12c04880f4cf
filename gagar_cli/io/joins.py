"""Joining: verdicts, patches and test outputs from other files, laid over the records of a dump by instance and run.

A report of one run must not speak about another one. With one run in the dump every file is about it; with several, a
file is about the run that it lies nearest to, else the one it names (itself or by its path); where that is not one,
it is used for nothing and named. The dump's own verdict stands where both have one: conflicts are counted and shown.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gagar_cli.core.text import counted, escape_untrusted
from gagar_cli.errors import InputError
from gagar_cli.io.formats.facts import INFERRED, Fact, Unit, is_inferred
from gagar_cli.io.formats.values import number_or_none
from gagar_cli.io.join_runs import parts_by_run, run_of
from gagar_cli.io.join_texts import JoinTexts
from gagar_cli.io.join_units import short_name, units_of
from gagar_cli.io.jsonl import show_value
from gagar_cli.io.records import MISSING, Fields
from gagar_cli.io.streams import show_path

_MAX_SHOWN = 3
_LAID = ("resolved", "reward", "infra_failure", "model_patch", "test_output")
KEYS = (
    "instance_id", "group_id", "trajectory_id", "step", "attempt", "resolved", "reward", "infra_failure", INFERRED,
)  # fmt: skip
"""Columns that joining needs, for readers that choose columns."""


class Joins:
    """What all `--join` files say, and how much of it found its attempt."""

    def __init__(
        self, paths: Sequence[str], runs: Sequence[str], pass_threshold: float | None = None
    ) -> None:
        """Read the files. `pass_threshold` None: every verdict that is not there yet is awaited, and null so long."""
        self._pass_threshold = pass_threshold
        self._runs = tuple(dict.fromkeys(runs))
        """Run directories of the dump; empty for one that has none."""
        self._texts = JoinTexts()
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
        self.has_verdicts = any(unit.has_verdicts for unit in assigned)
        """Whether anything here says who passed."""
        self._n_by_reward = 0
        self._is_told = False
        """Whether any record has a verdict or a reward, its own or a joined one."""
        self._is_lacking = False
        """Whether any has neither, and no reason."""
        self._strays: dict[str, str] | None = None
        """Mapped fields that no record of the dump has itself, with their paths; None before the first one."""
        self._said = {
            name
            for unit in assigned
            for facts in (*unit.facts.values(), *unit.attempts.values())
            for fact in facts
            for name in _LAID
            if self._texts.has(fact, name)
        } | ({"resolved"} if self.has_verdicts else set())
        """The fields that the files say anything of."""

    @property
    def is_untold(self) -> bool:
        """Whether nothing, in the dump or beside it, says a verdict or a reward of any record."""
        return self._is_lacking and not self._is_told

    def close(self) -> None:
        """Give back temporary space."""
        self._texts.close()

    def overlay(
        self, record: dict[str, Any], fields: Fields, *, run: str | None, where: str | None = None
    ) -> dict[str, Any]:
        """The record of a run with what the joined files know and it does not; counted where a place is given."""
        instance_id = fields.find(record, "instance_id")
        if instance_id is MISSING or instance_id is None:
            instance_id = fields.find(record, "group_id")
        facts = self._facts(record, fields, str(instance_id), run)
        made = dict(record)
        own = fields.find(made, "resolved")
        if is_inferred(made, is_native=run is not None):
            has_told = any(fact.resolved is not None for fact, _ in facts)
            if has_told or self._pass_threshold is None:  # what is awaited goes before it too
                made = {name: value for name, value in made.items() if name not in ("resolved", INFERRED)}
            own = MISSING if has_told else own
        if where is not None and fields.mapping:
            lacking = {
                name: fields.mapping[name]
                for name in _LAID
                if name in fields.mapping and fields.find(record, name) is MISSING
            }
            seen = lacking if self._strays is None else self._strays
            self._strays = {name: path for name, path in seen.items() if name in lacking}
        if not facts and where is not None:
            self._n_without += 1
            if len(self._without) < _MAX_SHOWN:
                self._without.append(
                    f"{where} ({escape_untrusted(str(instance_id), keep_newlines=False)[:80]})"
                )
        for fact, source in facts:
            if where is not None:
                self._note_use(fact, source, record, fields, where)
            self._lay(made, fact, fields, own, where=f"{where} against {source}" if where is not None else "")
        if where is not None and not self._is_told:
            self._is_told = any(
                fields.find(made, name) not in (MISSING, None) for name in ("resolved", "reward")
            )
        if fields.find(made, "resolved") is MISSING:
            self._settle(made, fields, is_counted=where is not None)
        return made

    def _settle(self, record: dict[str, Any], fields: Fields, *, is_counted: bool) -> None:
        """What stands of a record without a verdict: its reward, else nothing.

        A verdict anywhere in a file makes the others count as not evaluated: beside verdicts, what the reward comes to
        is told as one. Where none is joined, records that have a reward are judged as if nothing was joined, and one
        that has none must not be the first verdict of its file.
        """
        reward = fields.find(record, "reward")
        is_out = any(fields.find(record, name) is True for name in ("infra_failure", "mask_sample"))
        paid = number_or_none(reward)
        if self._pass_threshold is None:
            _put(record, fields, "resolved", None)
        elif self.has_verdicts:
            is_known = not is_out and paid is not None and not math.isnan(paid)
            _put(
                record,
                fields,
                "resolved",
                paid >= self._pass_threshold if is_known and paid is not None else None,
            )
            self._n_by_reward += is_counted and is_known
        elif reward is MISSING and not is_out:
            _put(record, fields, "reward", None)
            self._is_lacking |= is_counted

    def refuse_shared(self) -> None:
        """What is said of one attempt and would go to several, and a mapped path that leads nowhere, here as in the dump.

        Raises:
            InputError: with the first places.
        """
        for name, path in (self._strays or {}).items():
            if name not in self._said:
                shown = show_value(path)
                raise InputError(
                    f"no record has {shown}, and no joined file says {name}",
                    f"it was named by `--field {name}={shown[1:-1]}`",
                )
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
        if fact.trajectory_id is not None:
            # The same name may be in several groups, and come back at every step.
            name = repr([str(fields.find(record, each)) for each in ("step", "group_id")])
        attempt = (name, where)
        first = self._used.setdefault(id(fact), attempt)
        # Segments of one attempt share what is said of it.
        if first[0] != attempt[0]:
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
        for name in sorted(self._strays or ()):
            yield f"--join: no record of the dump has what `--field {name}=…` names: joined files alone say it"
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
            yield f"--join: {counted(len(unused), 'entry is', 'entries are')} about no record of the dump: {', '.join(unused[:_MAX_SHOWN])}: `gagar head` shows the ids"
        if self._n_conflicts:
            shown = "; ".join(self._conflicts)
            yield f"--join: {counted(self._n_conflicts, 'verdict contradicts', 'verdicts contradict')} the one that stands: {shown}"

    def _assign(self, units: Sequence[Unit]) -> None:
        n_named = sum(each.run is not None for each in units)
        parts = (part for unit in units for part in parts_by_run(unit, self._runs, n_named=n_named))
        for unit, run in parts:
            if run is MISSING:
                if unit.run is None:
                    self._ambiguous.append(
                        f"--join: {unit.source} is used for nothing: it lies nearest to no single run of the dump: "
                        "put it into the folder of its run, name it after that, or give its rows the `trajectory_id` "
                        "that `gagar head` shows"
                    )
                continue
            self._texts.keep(unit)
            self._units.setdefault(run if isinstance(run, str) else None, []).append(unit)
        n_lost = [
            unit.run
            for unit in units
            if unit.run is not None and run_of(unit, self._runs, n_named=2) is MISSING
        ]
        if n_lost and len(units) > 1:
            named = ", ".join(
                escape_untrusted(str(each), keep_newlines=False) for each in n_lost[:_MAX_SHOWN]
            )
            self._ambiguous.append(
                f"--join: {units[0].source}: {len(n_lost)} runs are not in the dump: {named}"
            )

    def _facts(
        self, record: Mapping[str, Any], fields: Fields, instance_id: str, run: str | None
    ) -> list[tuple[Fact, str]]:
        trajectory_id = fields.find(record, "trajectory_id")
        found: list[tuple[Fact, str]] = []
        for unit in [*self._units.get(run, ()), *(self._units.get(None, ()) if run is not None else ())]:
            for fact in (*unit.facts.get(instance_id, ()), *unit.attempts.get(str(trajectory_id), ())):
                if fact.trajectory_id is not None and fact.trajectory_id != str(trajectory_id):
                    continue
                told = (("group_id", fact.group_id), ("step", fact.step), ("attempt", fact.attempt))
                if all(value is None or _is_same(fields.find(record, name), value) for name, value in told):
                    found.append((fact, short_name(unit)))
            if unit.are_others_unresolved and instance_id not in unit.facts:
                found.append((Fact(resolved=False, is_of_one=False), short_name(unit)))
        return found

    def _lay(self, record: dict[str, Any], fact: Fact, fields: Fields, own: object, *, where: str) -> None:
        """Lay a fact over a record that came with the verdict `own`; what the record has stands."""
        if fact.infra_failure_reason and fields.find(record, "infra_failure") is not True:
            if own is True:  # what passed was evaluated
                self._note_conflict(where, own)
            else:
                _put(record, fields, "infra_failure", True)
                record["infra_failure_reason"] = fact.infra_failure_reason
        for name in ("resolved", "reward"):
            said, stands = getattr(fact, name), fields.find(record, name)
            if said is None:
                continue
            if stands in (MISSING, None) or stands != stands:  # NaN is no reward
                _put(record, fields, name, said)
            elif stands != said:
                self._note_conflict(where, stands)
        for name in ("model_patch", "test_output", "tests_status"):
            if (
                fields.find(record, name) in (MISSING, None)
                and (text := self._texts.find(fact, name)) is not None
            ):
                _put(record, fields, name, text)

    def _note_conflict(self, where: str, stands: object) -> None:
        if where:
            self._n_conflicts += 1
            if len(self._conflicts) < _MAX_SHOWN:
                self._conflicts.append(f"{where} (stands: {show_value(stands)})")


def _is_same(value: object, told: object) -> bool:
    """Whether a record's value is the one that a joined row names; a record without it may be meant."""
    return value is MISSING or value is None or str(value) == str(told)


def _put(record: dict[str, Any], fields: Fields, name: str, value: object) -> None:
    """Put a value where the field is looked for: under the whole of a mapped path, which goes before what it leads to."""
    record[fields.mapping.get(name, name)] = value
