"""SWE-bench predictions: `preds.json`, `all_preds.jsonl`, `.pred`, a list, a dict by instance, or lines.

Beside trajectories of the same run they give patches; alone they are attempts without a log. A null patch stays null.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Context, Format, Lift, Record, Row, known
from gagar_cli.io.formats.files import NativeFile, Sample
from gagar_cli.io.formats.parts import attempt_id, finished, model_name, row_of
from gagar_cli.io.records import checked_identifier

_KNOWN = {
    "instance_id", "model_patch", "patch", "model_name_or_path", "prefix", "full_output", "text", "model_name",
    "base_commit", "repo", "version",
}  # fmt: skip


def detect(sample: Sample) -> str | None:
    """Rows of instance, patch and model, and nothing that says more."""
    if _is_prediction(sample.first):
        return "rows of instance_id, model_patch and model_name_or_path"
    if sample.container in ("document", "lines") and isinstance(sample.first, Mapping) and sample.first:
        items = sample.first.items()
        if all(_is_prediction(each) and each.get("instance_id", name) == name for name, each in items):
            return "predictions by instance_id"
    return None


def read(file: NativeFile, context: Context) -> Iterator[Row]:
    """Every prediction."""
    for number, value in numbered(file):
        if isinstance(value, InputError):
            yield Row(number, value)
        elif not _is_prediction(value):
            yield Row(
                number,
                InputError(f"{file.name}:{number}: no prediction, expected instance_id and model_patch"),
            )
        else:
            yield row_of(number, file, partial(_record, value, context))


def numbered(file: NativeFile) -> Iterator[tuple[int, Any]]:
    """The predictions of a file in any of their containers."""
    for number, value in file.values():
        is_dict = isinstance(value, dict) and value and not _is_prediction(value)
        if is_dict and all(isinstance(each, dict) for each in value.values()):
            yield from enumerate(({"instance_id": name} | each for name, each in value.items()), 1)
        else:
            yield number, value


def patch_of(prediction: Mapping[str, Any]) -> str | None:
    """The patch of a prediction; None where there is none."""
    patch = prediction.get("model_patch", prediction.get("patch"))
    return patch if isinstance(patch, str) else None


def _record(prediction: Mapping[str, Any], context: Context) -> Record:
    lift = Lift(prediction)
    instance_id = checked_identifier(lift.take("instance_id"), "instance_id")
    model = model_name(lift.take("model_name_or_path"))
    patch = patch_of(prediction)
    lift.take("model_patch")
    record: Record = {
        "group_id": instance_id,
        "group_id_source": "field:instance_id",
        "instance_id": instance_id,
        "trajectory_id": attempt_id(context, instance_id),
        "resolved": None,
        "model_patch": patch,
        **known(
            model_name_or_path=model,
            repo=lift.text("repo"),
            base_commit=lift.text("base_commit"),
        ),
        "source_format": "swe-bench predictions",
    }
    return finished(record, lift, context)


def _is_prediction(value: Any) -> bool:
    if not isinstance(value, Mapping) or "instance_id" not in value:
        return False
    has_patch = "model_patch" in value or ("patch" in value and "prefix" in value)
    return has_patch and bool({"model_name_or_path", "prefix"} & value.keys()) and value.keys() <= _KNOWN


FORMAT = Format(
    name="predictions",
    title="SWE-bench predictions",
    container="preds.json (dict), all_preds.jsonl (lines), *.pred, a JSON list, SWE-bench Pro's patches.json",
    detect=detect,
    read=read,
    role="predictions",
    needs_join="verdicts (a report of the SWE-bench harness); logs (the agent's trajectories)",
    mapping={
        "group_id, instance_id": "instance_id",
        "trajectory_id": "run directory / instance_id",
        "model_patch": "model_patch or patch; null stays null",
        "model_name_or_path": "model_name_or_path",
    },
)
