"""terminal-bench 0.x: `<run>/results.json` with all trials, or one `results.json` in each trial's folder.

`is_resolved` null means that the tests did not come to an end: not evaluated. Logs are terminal recordings; what the
tests printed is in the trial's folder.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gagar_cli.core.messages import json_text
from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Context, Format, Lift, Record, Row, known
from gagar_cli.io.formats.files import NativeFile, Sample
from gagar_cli.io.formats.harbor import text_beside
from gagar_cli.io.formats.parts import attempt_id, finished, row_of
from gagar_cli.io.formats.values import flag_of
from gagar_cli.io.records import checked_identifier

_TRUNCATED = {
    "agent_timeout": "truncated_time",
    "context_length_exceeded": "truncated_context",
    "output_length_exceeded": "truncated_context",
}
_INFRASTRUCTURE = ("agent_installation_failed",)


def detect(sample: Sample) -> str | None:
    """A document of one trial, or of a run with its trials."""
    if sample.container not in ("document", "lines") or not isinstance(sample.first, Mapping):
        return None
    if is_trial(sample.first):
        return "is_resolved and failure_mode: a trial of terminal-bench"
    results = sample.first.get("results")
    if isinstance(results, list) and results and is_trial(results[0]):
        return "results with is_resolved: a run of terminal-bench"
    return None


def is_trial(value: Any) -> bool:
    """Whether a value is the result of one trial."""
    return isinstance(value, Mapping) and {"is_resolved", "failure_mode", "task_id"} <= value.keys()


def read(file: NativeFile, context: Context) -> Iterator[Row]:
    """The trials of a file."""
    document = file.document()
    folder = Path(file.path).parent
    if is_trial(document):
        yield row_of(1, file, lambda: _record(document, folder, context))
        return
    results = document.get("results") if isinstance(document, Mapping) else None
    for number, trial in enumerate(results if isinstance(results, list) else [], 1):
        if is_trial(trial):
            beside = folder / Path(str(trial["task_id"])).name / Path(str(trial.get("trial_name"))).name
            yield row_of(number, file, partial(_record, trial, beside, context))
        else:
            yield Row(
                number,
                InputError(f"{file.name}:{number}: no trial, expected task_id, is_resolved, failure_mode"),
            )


def _record(trial: Mapping[str, Any], folder: Path, context: Context) -> Record:
    lift = Lift(trial)
    task = checked_identifier(lift.take("task_id"), "task_id")
    mode = lift.text("failure_mode")
    tests = lift.take("parser_results")
    resolved = flag_of(lift.take("is_resolved"), "is_resolved")
    output = text_beside(folder / "sessions" / "tests.log", folder) or text_beside(
        folder / "panes" / "post-test.txt", folder
    )
    record: Record = {
        "group_id": task,
        "group_id_source": "field:task_id",
        "instance_id": task,
        "trajectory_id": attempt_id(context, lift.text("trial_name") or task),
        "resolved": resolved,
        **known(
            problem_statement=lift.text("instruction"),
            n_input_tokens=lift.integer("total_input_tokens"),
            n_output_tokens=lift.integer("total_output_tokens"),
            tests_status=json_text(tests) if tests is not None else None,
            test_output=output,
            exit_status=mode,
        ),
        **_ending(mode, is_evaluated=resolved is not None),
        "source_format": "terminal-bench",
    }
    return finished(record, lift, context)


def _ending(mode: str | None, *, is_evaluated: bool) -> Record:
    if mode in _INFRASTRUCTURE:
        return {"termination": "aborted", "infra_failure": True, "infra_failure_reason": mode}
    if mode in (None, "unset", "none"):
        return {"termination": "completed", "is_truncated": False} if is_evaluated else {}
    if mode in _TRUNCATED:
        return {"termination": _TRUNCATED[mode], "is_truncated": True}
    return {"termination": "agent_error" if is_evaluated else "unknown"}


FORMAT = Format(
    name="terminal-bench",
    title="terminal-bench 0.x runs and trials",
    container="<run>/results.json, or <run>/<task>/<trial>/results.json with sessions/ and panes/",
    detect=detect,
    read=read,
    is_connected=True,
    needs_join="patches and logs, where they are needed",
    mapping={
        "group_id, instance_id": "task_id",
        "trajectory_id": "run directory / trial_name",
        "resolved": "is_resolved; null is not evaluated",
        "infra_failure": "agent_installation_failed",
        "is_truncated": "agent_timeout, context_length_exceeded, output_length_exceeded",
        "problem_statement": "instruction",
        "test_output": "sessions/tests.log, else panes/post-test.txt",
        "tests_status": "parser_results",
    },
)
