"""Build the demo dump: play every attempt, take its patch, run the hidden tests.

    python3 examples/build_demo_dump.py [OUTPUT]

Standard library only, no network. The result depends on nothing but the sources here and the demo repository.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from attempts import closed_days, lower_case_x, quoted_breaks, wide_titles
from demo_session import TEST_COMMAND, WORKDIR, Session, git_diff, read_tree, run_tests
from demo_task import Attempt, DemoTask

REPO = "shelfmark/shelfmark"
BASE_COMMIT = "6f2d0c1e9b7a4835d1c2e4f60718293a4b5c6d7e"
DEMO_DATA = Path(__file__).resolve().parent.parent / "gagar_cli" / "demo_data"
BASE_TREE = DEMO_DATA / "repositories" / f"{REPO.replace('/', '__')}@{BASE_COMMIT}"
TASKS = (closed_days.TASK, wide_titles.TASK, quoted_breaks.TASK, lower_case_x.TASK)
STEP = 40


def main() -> None:
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else DEMO_DATA / "demo-rollouts.jsonl"
    records = [
        build_record(task, number, attempt)
        for task in TASKS
        for number, attempt in enumerate(task.attempts, 1)
    ]
    output.write_text(
        "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8"
    )
    print(f"{output}: {len(records)} attempts at {len(TASKS)} tasks")


def build_record(task: DemoTask, number: int, attempt: Attempt) -> dict[str, object]:
    """Play one attempt and judge it; raises if it does not end as its script says."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "repo"
        shutil.copytree(BASE_TREE, tree)
        base = read_tree(tree)
        session = Session(tree, task.issue)
        attempt.play(session)
        patch = git_diff(base, read_tree(tree))
        add_hidden_tests(tree, task)
        outcome = run_tests(tree)
    trajectory_id = f"{task.instance_id}-{number:02d}"
    if attempt.passes is not None and attempt.passes != (outcome.exit_code == 0):
        raise AssertionError(f"{trajectory_id}: exit code {outcome.exit_code}\n{outcome.output}")
    is_invalid = attempt.passes is None
    return {
        "step": STEP,
        "group_id": task.instance_id,
        "trajectory_id": trajectory_id,
        "instance_id": task.instance_id,
        "repo": REPO,
        "base_commit": BASE_COMMIT,
        "docker_image": None,
        "workdir": WORKDIR,
        "test_command": TEST_COMMAND,
        "problem_statement": task.issue,
        "messages": session.messages,
        "model_patch": None if is_invalid else patch,
        "test_output": None if is_invalid else outcome.output,
        "reward": float(attempt.passes or False),
        "resolved": attempt.passes,
        "infra_failure": is_invalid,
        "is_truncated": attempt.exit_status == "max_turns",
        "exit_status": attempt.exit_status,
        "n_turns": session.n_turns,
        "n_output_tokens": session.n_output_tokens,
    }


def add_hidden_tests(tree: Path, task: DemoTask) -> None:
    """Put the base repository's own tests back, with the task's hidden ones added."""
    shutil.rmtree(tree / "tests")
    shutil.copytree(BASE_TREE / "tests", tree / "tests")
    for path, tests in task.hidden_tests.items():
        own, main_line = (tree / path).read_text(encoding="utf-8").split('\n\nif __name__ == "__main__"')
        (tree / path).write_text(f'{own}{tests}\n\nif __name__ == "__main__"{main_line}', encoding="utf-8")


if __name__ == "__main__":
    main()
