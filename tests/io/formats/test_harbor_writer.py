"""Harbor's trials and logs as its own models write them, and its table of exceptions."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.io.formats.trainer_code import installed, rows_of, run_with_stand_ins

pytestmark = pytest.mark.slow

HARBOR = "harbor==0.26.0"
TRIALS = """
from datetime import UTC, datetime
from pathlib import Path
from harbor.models.agent.context import AgentContext
from harbor.models.task.id import LocalTaskId
from harbor.models.trajectories import Agent, FinalMetrics, Observation, ObservationResult, Step, ToolCall, Trajectory
from harbor.models.trial.config import TaskConfig, TrialConfig
from harbor.models.trial.error_policy import ERROR_POLICIES, ErrorPolicyOverride
from harbor.models.trial.result import AgentInfo, ExceptionInfo, ModelInfo, TrialResult
from harbor.models.verifier.result import VerifierResult
import json

out = Path(sys.argv[1])

def trial(name, reward, error=None, override=None):
    raised = error and ExceptionInfo(
        exception_type=error, exception_message="m", exception_traceback="t", occurred_at=datetime.now(UTC),
        policy_override=override,
    )
    made = TrialResult(
        task_name="org/fix", trial_name=name, trial_uri="file:///x", task_id=LocalTaskId(path=Path("fix")),
        task_checksum="0123456789abcdef", config=TrialConfig(task=TaskConfig(path=Path("fix")), trial_name=name),
        agent_info=AgentInfo(name="mini", version="2", model_info=ModelInfo(name="m-1", provider="p")),
        agent_result=AgentContext(n_input_tokens=10, n_output_tokens=7, cost_usd=0.5), exception_info=raised,
        verifier_result=None if reward is None else VerifierResult(rewards={"reward": reward}),
    )
    folder = out / "job" / name
    (folder / "agent").mkdir(parents=True)
    (folder / "verifier").mkdir()
    (folder / "result.json").write_text(made.model_dump_json(indent=4))
    (folder / "verifier" / "test-stdout.txt").write_text("1 passed")
    call = ToolCall(tool_call_id="c1", function_name="bash", arguments={"command": "ls"})
    seen = Observation(results=[ObservationResult(source_call_id="c1", content="x")])
    log = Trajectory(
        session_id="s", agent=Agent(name="mini", version="2", model_name="m-1"),
        steps=[
            Step(step_id=1, source="user", message="fix it"),
            Step(step_id=2, source="agent", message="look", tool_calls=[call], observation=seen),
        ],
        final_metrics=FinalMetrics(total_completion_tokens=7),
    )
    (folder / "agent" / "trajectory.json").write_text(json.dumps(log.to_json_dict()))

trial("fix__a", 1.0)
trial("fix__b", 0.0)
trial("fix__c", 1.0, "AgentTimeoutError")
trial("fix__d", None, "VerifierTimeoutError")
trial("fix__e", 0.0, "MadeUpError")
trial("fix__f", 0.0, "MadeUpError", ErrorPolicyOverride(has_valid_reward=False))
for name in ERROR_POLICIES:
    trial(f"each__{name}", 1.0, name)
    older = json.loads((out / "job" / f"each__{name}" / "result.json").read_text())
    del older["reward_valid"], older["exception_info"]["policy"]
    (out / "older" / name).mkdir(parents=True)
    (out / "older" / name / "result.json").write_text(json.dumps(older))
(out / "policies.json").write_text(json.dumps({name: each.has_valid_reward for name, each in ERROR_POLICIES.items()}))
"""


def test_harbor(native: Any, tmp_path: Path) -> None:
    installed(HARBOR)
    run_with_stand_ins(TRIALS, str(tmp_path), stand_ins=("toml", "shortuuid"))
    dump = native({}, "job")
    found = {row[0]: row[1:] for row in rows_of(dump, "trajectory_id", "reward", "passed", "invalid_reason")}
    assert dump.index["group_id"].unique().to_list() == ["org/fix@0123456789ab"]
    assert {name: row for name, row in found.items() if name.startswith("fix")} == {
        "fix__a": (1.0, True, None), "fix__b": (0.0, False, None), "fix__c": (1.0, True, None),
        "fix__d": (None, False, "infra_failure"), "fix__e": (0.0, False, None),
        "fix__f": (None, False, "infra_failure"),
    }  # fmt: skip
    row = dump.index["trajectory_id"].to_list().index("fix__c")
    trajectory = dump.read_trajectories([row])[0][1]
    assert (trajectory.is_truncated, trajectory.test_output) == (True, "1 passed")
    assert [each.role for each in trajectory.messages] == ["user", "assistant", "tool"]
    assert trajectory.messages[1].tool_calls[0].arguments == '{"command": "ls"}'


@pytest.mark.parametrize("folder", ["job", "older"])
def test_harbor_exceptions_leave_a_reward_as_its_own_table_says(
    native: Any, tmp_path: Path, folder: str
) -> None:
    """`older` trials do not say it themselves: their exceptions are told by name."""
    installed(HARBOR)
    run_with_stand_ins(TRIALS, str(tmp_path), stand_ins=("toml", "shortuuid"))
    dump = native({}, folder)
    valid = {
        name.removeprefix("each__"): reason is None
        for name, reason in rows_of(dump, "trajectory_id", "invalid_reason")
        if name.startswith("each__")
    }
    assert valid == json.loads((tmp_path / "policies.json").read_text())
