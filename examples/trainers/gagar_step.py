"""One training step's rollouts through `gagar grade` and `gagar redistribute`: what every trainer here calls.

The grader is chosen by the environment, so that workers inherit it:

    export GAGAR_GRADE_FLAGS="--model judge-1 --base-url http://127.0.0.1:8000/v1"
    export GAGAR_REDISTRIBUTE_FLAGS="--cap bounded"     # may be left out
    export GAGAR_FOLDER=runs/gagar                      # dumps, rankings and advantages of every step

Groups that are skipped or ungraded keep their plain advantages: a step never fails because a grader did.
"""

import json
import os
import shlex
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Credit(NamedTuple):
    """What one rollout gets; both None where it is invalid."""

    advantage: float | None
    reward: float | None
    """Gives `advantage` to a trainer that subtracts the group's mean reward and does not divide by its deviation."""


def redistribute_step(records: Sequence[Mapping[str, object]]) -> list[Credit]:
    """The credit of each record, in order.

    A record has `group_id`, `trajectory_id`, `resolved` (or `reward`), and what the grader is to see: `messages`,
    `model_patch`, `problem_statement`, `repo`, `base_commit`, `test_output`.

    Raises:
        subprocess.CalledProcessError: the dump itself is bad; what is wrong with it is on stderr.
    """
    folder = Path(os.environ.get("GAGAR_FOLDER", "gagar-steps")) / uuid.uuid4().hex[:12]
    folder.mkdir(parents=True)
    dump, rankings, advantages = (
        folder / name for name in ("dump.jsonl", "rankings.jsonl", "advantages.jsonl")
    )
    dump.write_text("".join(json.dumps(record, default=_plain) + "\n" for record in records))
    gagar = shlex.split(os.environ.get("GAGAR_COMMAND", "gagar"))
    grade = shlex.split(os.environ.get("GAGAR_GRADE_FLAGS", ""))
    graded = subprocess.run(
        [*gagar, "grade", str(dump), "-o", str(rankings), "-q", *grade],
        check=False,
        stdout=subprocess.DEVNULL,
    )
    # 1: groups were eligible and none was graded, so that all keep their plain advantages.
    if graded.returncode not in (0, 1):
        graded.check_returncode()
    more = shlex.split(os.environ.get("GAGAR_REDISTRIBUTE_FLAGS", ""))
    source = ["--rankings", str(rankings)] if rankings.exists() else ["--method", "dr-grpo"]
    command = [*gagar, "redistribute", str(dump), *source, "-o", str(advantages), "-q", *more]
    made = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    if not advantages.exists():
        made.check_returncode()
    rows = map(json.loads, advantages.read_text().splitlines())
    found = {
        (row["group_id"], row["trajectory_id"]): Credit(row["advantage"], row["reward_equivalent"])
        for row in rows
    }
    return [found[str(record["group_id"]), str(record["trajectory_id"])] for record in records]


def _plain(value: object) -> object:
    """What json does not know, such as a number or an array of numpy, as the values in it."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
