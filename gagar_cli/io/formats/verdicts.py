"""What says a verdict, a patch or a test output about attempts that lie elsewhere: reports, predictions, logs.

Three generations of SWE-bench reports, SWE-smith's, SWE-bench Pro's, tables of runs, and plain rows with an instance_id.
Each file becomes units: facts about instances of one run. A verdict that a report does not give stays unknown; what the
harness could not evaluate is invalid, never failed.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gagar_cli.core.messages import json_text
from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Format
from gagar_cli.io.formats.facts import Fact, Unit
from gagar_cli.io.formats.files import NativeFile, Sample
from gagar_cli.io.formats.predictions import detect as is_predictions
from gagar_cli.io.formats.predictions import numbered, patch_of
from gagar_cli.io.formats.values import flag_of, integer_of, reward_of, text_of
from gagar_cli.io.records import placed

_INFRASTRUCTURE_LISTS = (
    "infra_failure_ids",
    "error_ids",
    "install_fail",
    "reset_failed",
    "test_errored",
    "test_timeout",
)
_FAILED_LISTS = ("unresolved_ids", "ids_unresolved", "empty_patch_ids", "no_generation", "no_apply")
_EVALUATED_LISTS = ("completed_ids", "applied", "with_logs")
_ROW_FACTS = ("resolved", "passed", "reward", "model_patch", "test_output", "infra_failure")


def detect(sample: Sample) -> str | None:
    """The shape of a report."""
    first = sample.first
    if sample.container not in ("document", "lines", "array") or not isinstance(first, Mapping) or not first:
        return None
    if sample.container == "document" or sample.container == "lines":
        if "patch_exists" in first and "resolved" in first:
            return "patch_exists and resolved: the report of one instance"
        if isinstance(first.get("resolved_ids", first.get("resolved")), list):
            return "a list of resolved instances: the report of a run"
        if isinstance(first.get("ids_resolved"), list):
            return "ids_resolved: a report of SWE-smith"
        if isinstance(first.get("instances"), list) and _is_row(next(iter(first["instances"]), None)):
            return "instances with resolved: a summary"
        values = list(first.values())
        if all(isinstance(each, Mapping) and "resolved" in each for each in values):
            return "resolved by instance_id: a report of the SWE-bench harness"
        if all(isinstance(each, bool) for each in values) and all(
            "__" in name or "-" in name for name in first
        ):
            return "true or false by instance_id: verdicts of SWE-bench Pro"
        if all(
            isinstance(each, Mapping) and each and all(_is_bit(one) for one in each.values())
            for each in values
        ):
            return "0 or 1 by run and instance_id"
    return None


def read_units(file: NativeFile, sample: Sample) -> list[Unit]:
    """The units of a report, predictions, or rows with facts; empty where it holds none.

    Raises:
        InputError: it cannot be read.
    """
    unit = Unit(file.name, file.path)
    if sample.container in ("document", "lines") and detect(sample) is not None:
        document = file.document()
        if isinstance(document, Mapping):
            try:
                return _report(document, unit)
            except InputError as error:
                is_placed = error.message.startswith(unit.source)
                raise error if is_placed else placed(error, unit.source) from error
    if is_predictions(sample):
        for number, value in numbered(file):
            if isinstance(value, InputError):
                raise value
            if not isinstance(value, Mapping) or "instance_id" not in value:
                raise InputError(f"{file.name}:{number}: instance_id is missing")
            unit.add(str(value["instance_id"]), Fact(model_patch=patch_of(value)))
        return [unit]
    if _is_row(sample.first):
        for number, value in file.values():
            if isinstance(value, InputError):
                raise value
            _add_row(unit, value, f"{file.name}:{number}")
        return [unit]
    return []


def log_unit(path: str, name: str) -> Unit | None:
    """The unit of a log or patch that a harness wrote beside its report; None for other files."""
    file = Path(path)
    unit = Unit(name, path)
    if file.name == "test_output.txt" or file.name.endswith("_stdout.log"):
        unit.add(file.parent.name, Fact(test_output_path=path))
    elif file.name.endswith(".eval.log"):
        unit.add(file.name.split(".")[0], Fact(test_output_path=path))
    elif file.name == "run_instance.log":
        resolved = _logged_verdict(file)
        if resolved is None:
            return None
        unit.add(file.parent.name, Fact(resolved=resolved))
    elif file.name == "patch.diff" or file.name.endswith("_patch.diff"):
        unit.add(file.parent.name, Fact(model_patch=_text(path)))
    else:
        return None
    return unit


def _logged_verdict(file: Path) -> bool | None:
    """The verdict in the harness's own log, where no report lies beside it.

    The log quotes the patch: only what comes after the harness began to grade is its own word.
    """
    if (file.parent / "report.json").exists():
        return None
    text = _text(str(file)) or ""
    _, found, graded = text.rpartition(f"Grading answer for {file.parent.name}...")
    verdicts = re.findall(
        rf"^Result for {re.escape(file.parent.name)}: resolved: (True|False)$", graded, re.MULTILINE
    )
    return verdicts[-1] == "True" if found and verdicts else None


def _report(document: Mapping[str, Any], unit: Unit) -> list[Unit]:
    if "patch_exists" in document and "resolved" in document:
        unit.add(Path(unit.path).parent.name, _instance_fact(document))
        return [unit]
    if isinstance(document.get("instances"), list):
        for number, row in enumerate(document["instances"]):
            _add_row(unit, row, f"{unit.source}: instances[{number}]")
        return [unit]
    if any(isinstance(document.get(name), list) for name in ("resolved_ids", "resolved", "ids_resolved")):
        _add_lists(unit, document)
        return [unit]
    values = list(document.values())
    if all(isinstance(each, bool) for each in values):
        for instance_id, verdict in document.items():
            unit.add(instance_id, _pro_fact(instance_id, Path(unit.path).parent, verdict=verdict))
        return [unit]
    if all(isinstance(each, Mapping) and "resolved" in each for each in values):
        for instance_id, inner in document.items():
            unit.add(instance_id, _instance_fact(inner))
        return [unit]
    return list(_runs(document, unit))


def _pro_fact(instance_id: str, folder: Path, *, verdict: bool) -> Fact:
    """A verdict of SWE-bench Pro, which writes false also for a run that died: then its folder has no result."""
    own = folder / instance_id
    try:
        has_died = not verdict and own.is_dir() and not any(own.glob("*_output.json"))
    except (OSError, ValueError):
        has_died = False
    return (
        Fact(infra_failure_reason="no output.json beside the verdict") if has_died else Fact(resolved=verdict)
    )


def _runs(document: Mapping[str, Any], unit: Unit) -> Iterator[Unit]:
    for run, verdicts in document.items():
        part = Unit(unit.source, unit.path, run=run)
        for instance_id, verdict in verdicts.items():
            part.add(instance_id, Fact(resolved=None if verdict is None else bool(verdict)))
        yield part


def _instance_fact(report: Mapping[str, Any]) -> Fact:
    status = report.get("tests_status")
    tests = json_text(status) if isinstance(status, Mapping) else None
    if flag_of(report.get("infra_failure"), "infra_failure"):
        reason = report.get("infra_failure_reason")
        return Fact(infra_failure_reason=str(reason or "infra_failure in the report"), tests_status=tests)
    return Fact(resolved=flag_of(report.get("resolved"), "resolved"), tests_status=tests)


def _add_lists(unit: Unit, document: Mapping[str, Any]) -> None:
    def listed(*names: str) -> set[str]:
        return {
            each
            for name in names
            if isinstance(document.get(name), list)
            for each in document[name]
            if isinstance(each, str)
        }

    resolved = listed("resolved_ids", "resolved", "ids_resolved")
    broken = listed(*_INFRASTRUCTURE_LISTS) - resolved
    failed = (listed(*_FAILED_LISTS, *_EVALUATED_LISTS) - resolved) - broken
    reasons = document.get("failure_reasons")
    for instance_id in sorted(resolved):
        unit.add(instance_id, Fact(resolved=True))
    for instance_id in sorted(failed):
        unit.add(instance_id, Fact(resolved=False))
    for instance_id in sorted(broken):
        told = reasons.get(instance_id) if isinstance(reasons, Mapping) else None
        name = next(name for name in _INFRASTRUCTURE_LISTS if instance_id in (document.get(name) or ()))
        unit.add(instance_id, Fact(infra_failure_reason=str(told or f"{name} of the report")))
    stats = document.get("stats")
    if isinstance(stats, Mapping) and stats.get("generated") is not None:
        unit.are_others_unresolved = stats.get("generated") == stats.get("with_logs")


def _add_row(unit: Unit, row: Any, where: str) -> None:
    name = (
        "instance_id" if isinstance(row, Mapping) and row.get("instance_id") is not None else "trajectory_id"
    )
    if not isinstance(row, Mapping) or not isinstance(row.get(name), str | int):
        raise InputError(
            f"{where}: instance_id and trajectory_id are missing, expected what the row is about"
        )
    try:
        fact = _row_fact(row, where)
    except InputError as error:
        raise placed(error, where) from error
    if name == "instance_id":
        unit.add(str(row[name]), fact)
        return
    fact.is_by_trajectory = True
    unit.attempts.setdefault(str(row[name]), []).append(fact)


def _row_fact(row: Mapping[str, Any], where: str) -> Fact:
    """What a row says; of what it says nothing may get lost.

    Raises:
        InputError: a value is of another kind.
    """
    is_broken = any(flag_of(row.get(name), name) for name in ("infra_failure", "invalid"))
    resolved = flag_of(row.get("resolved", row.get("passed")), "resolved")
    trajectory_id, group_id = row.get("trajectory_id"), row.get("group_id")
    return Fact(
        resolved=None if is_broken else resolved,
        reward=reward_of(row.get("reward")),
        infra_failure_reason=str(row.get("infra_failure_reason") or f"infra_failure in {where}")
        if is_broken
        else None,
        model_patch=text_of(row.get("model_patch"), "model_patch"),
        test_output=text_of(row.get("test_output"), "test_output"),
        trajectory_id=None if trajectory_id is None else str(trajectory_id),
        attempt=integer_of(row.get("attempt"), "attempt"),
        group_id=None if group_id is None else str(group_id),
        step=integer_of(row.get("step"), "step"),
    )


def _is_row(value: Any) -> bool:
    is_about = isinstance(value, Mapping) and ("instance_id" in value or "trajectory_id" in value)
    return is_about and any(name in value for name in _ROW_FACTS)


def _is_bit(value: Any) -> bool:
    return value is None or (isinstance(value, int) and value in (0, 1))


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return None


FORMAT = Format(
    name="verdicts",
    title="reports of SWE-bench (three generations), SWE-smith and SWE-bench Pro",
    container="report.json, <model>.<run>.json, results.json, eval_results.json, run_instance.log, test_output.txt, patch.diff",
    detect=detect,
    read=None,
    role="verdicts",
    needs_join="",
    mapping={
        "resolved": "resolved, resolved_ids, the result in run_instance.log; what is listed as evaluated and not resolved is false",
        "infra_failure": "infra_failure, infra_failure_ids, error_ids, install_fail, reset_failed, test_errored, test_timeout",
        "test_output": "test_output.txt, *.eval.log",
        "model_patch": "patch.diff, predictions",
    },
)
