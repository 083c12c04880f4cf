"""The workflow in examples/ci: the commands of its steps, run in order."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORKFLOW = ROOT / "examples" / "ci" / "grade-and-audit.yml"
DUMP = ROOT / "gagar_cli" / "demo_data" / "demo-rollouts.jsonl"


def steps() -> dict[str, str]:
    """The shell commands of the named steps; a folded one is one line."""
    found = re.findall(
        r"- name: (\w+)\n(?:\s+if: .*\n)?\s+run: (>\n(?:\s{10}.*\n)+|.*\n)", WORKFLOW.read_text()
    )
    return {name: " ".join(command.removeprefix(">").split()) for name, command in found}


def test_the_steps_of_the_workflow_run(tmp_path):
    commands = steps()
    assert list(commands) == ["install", "grade", "redistribute", "audit", "summary"]
    assert commands.pop("install") == 'pip install "$GAGAR_SOURCE"'
    rollouts = tmp_path / "rollouts"
    rollouts.mkdir()
    lines = DUMP.read_text().splitlines()
    (rollouts / "new.jsonl").write_text("\n".join(lines) + "\n")
    (rollouts / "old.jsonl").write_text("\n".join(lines[::2]) + "\n")
    assert not {"--max-ungraded", "--min-graded"} & set(commands["grade"].split())
    assert {"--max-ungraded", "--min-graded"} < set(commands["redistribute"].split())
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {
        "PATH": path,
        "HOME": str(tmp_path),
        "MODEL": "offline",
        "GITHUB_STEP_SUMMARY": "summary.md",
    }
    for name, command in commands.items():
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, (name, done.stderr)
    assert json.loads((tmp_path / "audit" / "summary.json").read_text())["second"] == "new"
    assert (tmp_path / "advantages.parquet").stat().st_size > 0
    assert (tmp_path / "summary.md").read_text().startswith("## Audit of old, new")
    assert (tmp_path / "audit" / "gates.xml").exists()


def test_the_summary_step_does_not_fail_where_there_was_no_audit(tmp_path):
    done = subprocess.run(["bash", "-e", "-c", steps()["summary"]], cwd=tmp_path, check=False)
    assert done.returncode == 0
