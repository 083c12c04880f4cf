"""One training step's rollouts through `gagar grade` and `gagar redistribute`: what every trainer here calls.

The grader is chosen by the environment, so that workers inherit it:

    export GAGAR_GRADE_FLAGS="--model judge-1 --base-url http://127.0.0.1:8000/v1"
    export GAGAR_READ_FLAGS="--pass-threshold 0.5"      # how both read the records; may be left out
    export GAGAR_REDISTRIBUTE_FLAGS="--cap bounded"     # likewise
    export GAGAR_FOLDER=runs/gagar                      # dumps, rankings and advantages of every step

Groups that are skipped or ungraded keep their plain advantages, and so do all where the rankings do not fit the records,
which is logged: a step never fails because a grader did. What a step came to is logged too, and put where the trainer
keeps its metrics.
"""

import json
import logging
import os
import shlex
import subprocess
import uuid
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Credit(NamedTuple):
    """What one rollout gets; both None where it is invalid."""

    advantage: float | None
    reward: float | None
    """Gives `advantage` to a trainer that subtracts the group's mean reward and does not divide by its deviation."""


def redistribute_step(
    records: Sequence[Mapping[str, object]], metrics: MutableMapping[str, float] | None = None
) -> list[Credit]:
    """The credit of each record, in order; `metrics` gets what `measure_step` tells.

    A record has `group_id`, `trajectory_id`, `resolved` (or `reward`), and what the grader is to see: `messages`,
    `model_patch`, `problem_statement`, `repo`, `base_commit`, `test_output`.

    Raises:
        subprocess.CalledProcessError: the dump itself is bad, or a flag is; what is wrong with it is on stderr.
    """
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
    # 1: groups were eligible and none was graded, so that all keep their plain advantages.
    if graded.returncode not in (0, 1):
        graded.check_returncode()
    made = run("redistribute", advantages, "--rankings", str(rankings), *more)
    # 2: a flag is wrong, and would be in every step.
    if not advantages.exists() and made.returncode != 2:
        logging.warning("%s: no rankings that fit the records: all keep their plain advantages", folder)
        made = run("redistribute", advantages, "--method", "dr-grpo")
    if not advantages.exists():
        made.check_returncode()
    rows = [json.loads(line) for line in advantages.read_text().splitlines()]
    measured = measure_step(json.loads(graded.stdout or "{}"), json.loads(made.stdout), rows)
    logging.info("%s: %s", folder, measured)
    if metrics is not None:
        metrics.update(measured)
    found = {
        (row["group_id"], row["trajectory_id"]): Credit(row["advantage"], row["reward_equivalent"])
        for row in rows
    }
    return [found[str(record["group_id"]), str(record["trajectory_id"])] for record in records]


def measure_step(
    graded: Mapping[str, Any], made: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """A step in numbers, from the two summaries (docs/json.md) and the advantages.

    `graded_share` is of all groups; `ungraded_share` of those that could be ranked: 1 where no grader answers.
    `moved_share` is the advantage that changed hands, of what passing attempts had.
    """
    pairs = [(row["advantage"], row["advantage_base"]) for row in rows]
    known = [(new, base) for new, base in pairs if isinstance(new, float) and isinstance(base, float)]
    had = sum(max(base, 0.0) for _, base in known)
    n_groups = made["n_graded"] + made["n_skipped"] + made["n_ungraded"]
    spent = graded.get("spending", {})
    return {
        "gagar/graded_share": made["n_graded"] / max(n_groups, 1),
        "gagar/ungraded_share": sum(made["n_left_by_reason"].values()) / max(made["n_eligible"], 1),
        "gagar/capped_share": made["capped_share"] or 0.0,
        "gagar/moved_share": sum(abs(new - base) for new, base in known) / 2 / had if had else 0.0,
        "gagar/violations": made["n_integrity_violations"],
        "gagar/tokens_in": spent.get("n_input_tokens", 0),
        "gagar/tokens_out": spent.get("n_output_tokens", 0),
    }


def _plain(value: object) -> object:
    """What json does not know, such as a number or an array of numpy, as the values in it."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
