"""One training step's rollouts through `gagar grade` and `gagar redistribute`: what every trainer here calls.

The grader is chosen by the environment, so that workers inherit it:

    export GAGAR_GRADE_FLAGS="--model judge-1 --base-url http://127.0.0.1:8000/v1"
    export GAGAR_READ_FLAGS="--pass-threshold 0.5"      # how both read the records; may be left out
    export GAGAR_REDISTRIBUTE_FLAGS="--cap bounded"     # likewise
    export GAGAR_FOLDER=runs/gagar                      # dumps, rankings and advantages of every step

Groups that are skipped or ungraded keep their plain advantages, and so do all where the rankings do not fit the records,
which is logged: a step never fails because a grader did. What a step came to is logged too, and put where the trainer
keeps its metrics; what the two commands note is logged once of a kind.
"""

import json
import logging
import os
import re
import shlex
import subprocess
import uuid
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

OF_AN_ATTEMPT = (
    "messages", "tools", "model_patch", "problem_statement", "instance_id", "repo", "base_commit", "version",
    "docker_image", "workdir", "test_command", "test_patch", "gold_patch", "FAIL_TO_PASS", "PASS_TO_PASS", "tests_status",
    "test_output", "resolved", "rewards", "exit_status", "termination", "is_truncated", "infra_failure",
    "infra_failure_reason", "mask_sample", "n_turns", "n_input_tokens", "n_output_tokens", "cost_usd", "duration_s",
)  # fmt: skip
"""What a rollout may tell of its own attempt. Which attempt it is, and its reward, the trainer says."""
_noted: set[str] = set()


class Credit(NamedTuple):
    """What one rollout gets; both None where it is invalid, or its record bad."""

    advantage: float | None
    reward: float | None
    """Gives `advantage` to a trainer that subtracts the mean of the valid ones and does not divide by their deviation."""


def with_facts(record: Mapping[str, object], told: Mapping[str, object]) -> dict[str, object]:
    """A record with what the rollout tells of its attempt in its place; whatever else it tells is under `metadata`."""
    known = {name: value for name, value in told.items() if name in OF_AN_ATTEMPT}
    rest = {name: value for name, value in told.items() if name not in OF_AN_ATTEMPT}
    if record.get("infra_failure"):
        known["infra_failure"] = True
    return {**record, **known, **({"metadata": rest} if rest else {})}


def redistribute_rewards(
    records: Sequence[Mapping[str, object]], metrics: MutableMapping[str, float] | None = None
) -> list[float]:
    """The reward of each record, for a trainer that takes the mean over the whole group, invalid rollouts too.

    Those get the mean of the others, which does not move it: their advantage is 0.

    Raises:
        ValueError: the method makes advantages that no rewards give.
    """
    credited = redistribute_step(records, metrics)
    rewards: dict[object, list[float]] = {}
    for record, credit in zip(records, credited, strict=True):
        if credit.advantage is not None:
            if credit.reward is None:
                raise ValueError("this method makes advantages that no rewards give: take `--method gagar`")
            rewards.setdefault(_key(record)[:2], []).append(credit.reward)
    means = {group: sum(each) / len(each) for group, each in rewards.items()}
    return [
        means.get(_key(record)[:2], 0.0) if credit.reward is None else credit.reward
        for record, credit in zip(records, credited, strict=True)
    ]


def redistribute_step(
    records: Sequence[Mapping[str, object]], metrics: MutableMapping[str, float] | None = None
) -> list[Credit]:
    """The credit of each record, in order; `metrics` gets what `measure_step` tells.

    A record has `group_id`, `trajectory_id`, `resolved` (or `reward`), and what the grader is to see: `messages`,
    `model_patch`, `problem_statement`, `repo`, `base_commit`, `test_output`. Equal ids in another `step` are another
    attempt.

    Raises:
        ValueError: two records are the same attempt.
        subprocess.CalledProcessError: the dump itself is bad, or a flag is; what is wrong with it is on stderr.
    """
    if len({(_key(record), record.get("segment")) for record in records}) < len(records):
        raise ValueError("two records of a group have the same trajectory_id")
    folder = Path(os.environ.get("GAGAR_FOLDER", "gagar-steps")) / uuid.uuid4().hex[:12]
    folder.mkdir(parents=True)
    dump, rankings, advantages = (
        folder / name for name in ("dump.jsonl", "rankings.jsonl", "advantages.jsonl")
    )
    dump.write_text("".join(json.dumps(record, default=_plain) + "\n" for record in records))
    gagar = shlex.split(os.environ.get("GAGAR_COMMAND", "gagar"))
    grade, read, more = (
        shlex.split(os.environ.get(f"GAGAR_{name}_FLAGS", "")) for name in ("GRADE", "READ", "REDISTRIBUTE")
    )

    def run(name: str, output: Path, *flags: str) -> subprocess.CompletedProcess[bytes]:
        command = [*gagar, name, str(dump), "-o", str(output), "-q", "--json", *read, *flags]
        return subprocess.run(command, check=False, stdout=subprocess.PIPE)

    graded = run("grade", rankings, *grade)
    # 1: groups were eligible and none was graded, so that all keep their plain advantages. 4: a gate; rankings are written.
    if graded.returncode not in (0, 1, 4):
        graded.check_returncode()
    made = run("redistribute", advantages, "--rankings", str(rankings), *more)
    # 2: a flag is wrong, and would be in every step.
    if not advantages.exists() and made.returncode != 2:
        logging.warning("%s: no rankings that fit the records: all keep their plain advantages", folder)
        made = run("redistribute", advantages, "--method", "dr-grpo")
    if not advantages.exists():
        made.check_returncode()
    for done in (graded, made):
        if done.returncode == 4:
            logging.warning("%s: gagar %s: a gate is not met", folder, done.args[len(gagar)])
    rows = [json.loads(line) for line in advantages.read_text().splitlines()]
    summaries = json.loads(graded.stdout or "{}"), json.loads(made.stdout)
    measured = measure_step(*summaries, rows)
    for summary in summaries:
        _log_notes(folder, summary.get("notes", ()))
    logging.info("%s: %s", folder, measured)
    if metrics is not None:
        metrics.update(measured)
    found = {_key(row): Credit(row["advantage"], row["reward_equivalent"]) for row in rows}
    n_left = sum(_key(record) not in found for record in records)
    if n_left > summaries[1]["n_bad_records"]:
        raise KeyError(f"{advantages}: lacks {n_left} of {len(records)} records")
    if n_left:
        logging.warning("%s: bad records, which get no credit: %d of %d", folder, n_left, len(records))
    return [found.get(_key(record), Credit(None, None)) for record in records]


def measure_step(
    graded: Mapping[str, Any], made: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """A step in numbers, from the two summaries (docs/json.md) and the advantages.

    `graded_share` and `eligible_share`, which could be ranked, are of all groups; `ungraded_share` is of the latter: 1 where
    no grader answers.
    `moved_share` is the advantage that changed hands, of what passing attempts had.
    """
    pairs = [(row["advantage"], row["advantage_base"]) for row in rows]
    known = [(new, base) for new, base in pairs if isinstance(new, float) and isinstance(base, float)]
    had = sum(max(base, 0.0) for _, base in known)
    n_groups = made["n_graded"] + made["n_skipped"] + made["n_ungraded"]
    spent = graded.get("spending", {})
    return {
        "gagar/graded_share": made["n_graded"] / max(n_groups, 1),
        "gagar/eligible_share": made["n_eligible"] / max(n_groups, 1),
        "gagar/ungraded_share": sum(made["n_left_by_reason"].values()) / max(made["n_eligible"], 1),
        "gagar/capped_share": made["capped_share"] or 0.0,
        "gagar/moved_share": sum(abs(new - base) for new, base in known) / 2 / had if had else 0.0,
        "gagar/violations": made["n_integrity_violations"],
        "gagar/bad_records": made["n_bad_records"],
        "gagar/tokens_in": spent.get("n_input_tokens", 0),
        "gagar/tokens_out": spent.get("n_output_tokens", 0),
    }


def _key(record: Mapping[str, object]) -> tuple[object, str, str]:
    return record.get("step"), str(record["group_id"]), str(record["trajectory_id"])


def _log_notes(folder: Path, notes: Sequence[str]) -> None:
    """Notes whose first lines differ in numbers only are logged once in the life of a worker."""
    for note in notes:
        kind = re.sub(r"\d[\d., ]*", "#", note.partition("\n")[0].replace(str(folder), ""))
        if kind not in _noted:
            _noted.add(kind)
            logging.warning("%s: %s", folder, note)


def _plain(value: object) -> object:
    """What json does not know, such as a number or an array of numpy, as the values in it."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
