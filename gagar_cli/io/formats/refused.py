"""Files that are recognised and not read: pickles, token exports, datasets of tasks. Each says why."""

from gagar_cli.io.formats.base import Format
from gagar_cli.io.formats.files import Sample


def _pickle(sample: Sample) -> str | None:
    return "a pickle by its first bytes" if sample.container == "pickle" else None


def _tokens(sample: Sample) -> str | None:
    if sample.container == "lines" and {"token_ids", "loss_mask", "inference_logprobs"} <= sample.keys:
        return "token_ids, loss_mask and inference_logprobs"
    return None


def _updates(sample: Sample) -> str | None:
    if sample.container == "lines" and sample.keys == {"version", "trace_id", "info", "branches"}:
        return "trace_id, info and branches"
    return None


def _verl_tasks(sample: Sample) -> str | None:
    if {"data_source", "prompt", "reward_model"} <= sample.keys and not {
        "output",
        "reward",
        "score",
    } & sample.keys:
        return "data_source, prompt and reward_model: a dataset of verl"
    return None


def _validation(sample: Sample) -> str | None:
    lists = {"FAIL_TO_PASS", "PASS_TO_PASS", "FAIL_TO_FAIL", "PASS_TO_FAIL"}
    if sample.container in ("document", "lines") and sample.keys == lists:
        return "which tests a task breaks"
    return None


def _refused(name: str, title: str, container: str, detect: object, why: str) -> Format:
    return Format(
        name=name,
        title=title,
        container=container,
        detect=detect,  # type: ignore[arg-type]
        read=None,
        role="refused",
        needs_join=why,
        mapping={},
    )


FORMATS = (
    _refused(
        "pickle",
        "slime `.pt` and SkyRL `.pkl` dumps",
        "a pickle, which runs code when it is read",
        _pickle,
        "reading it may run any code that it holds: `gagar convert --unsafe-pickle` reads slime's in a sandbox",
    ),
    _refused(
        "prime-rl-tokens",
        "prime-rl token exports",
        "token_exports/step_N/rank_R.jsonl",
        _tokens,
        "it holds token ids only: read the run's rollouts/step_N/train/all/traces.jsonl",
    ),
    _refused(
        "prime-rl-annotations",
        "prime-rl's updates of traces",
        "traces/step_N/<kind>/annotations/orchestrator.jsonl, trainer.jsonl",
        _updates,
        "it says what was learnt of traces later, and holds none: they are in traces.jsonl in the folder above",
    ),
    _refused(
        "verl-dataset",
        "verl training data",
        "Parquet of data_source, prompt, reward_model",
        _verl_tasks,
        "these are tasks: the rollouts are in trainer.rollout_data_dir",
    ),
    _refused(
        "swe-smith-validation",
        "SWE-smith's validation of a task",
        "run_validation/<id>/report.json",
        _validation,
        "it says which tests a task breaks, and nothing about an attempt: those are in run_evaluation",
    ),
)
