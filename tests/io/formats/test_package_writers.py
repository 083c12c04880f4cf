"""Dumps of verifiers and mini-swe-agent, as the packages themselves write them on made-up rollouts."""

import json
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from tests.io.formats.trainer_code import (
    LEGACY,
    PATCH,
    installed,
    lifted,
    rows_of,
    run_with_stand_ins,
    source,
)

pytestmark = pytest.mark.slow

VERIFIERS, VERIFIERS_0 = "verifiers==0.4.0", "verifiers==0.1.14"
MINI = "mini-swe-agent==2.4.6"


TRACES = """
from pathlib import Path
import verifiers.v1 as vf
from verifiers.v1.graph import MessageNode
from verifiers.v1.trace import AgentInfo, Error, ModelCall, Trace, TraceTask, VersionInfo
from verifiers.v1.types import AssistantMessage, ToolCall, ToolMessage, UserMessage
from verifiers.v1.configs.agent import WireAgentConfig
from verifiers.v1.task import WireTaskData
from verifiers.v1.state import State
from verifiers.v1.episode import TrainRunInfo, TrainWorkInfo, WireEpisode
from verifiers.v1.utils.trace_store import write_episode

out = Path(sys.argv[1])
data = WireTaskData(id="a__b-1", prompt="fix it", image="img:1", workdir="/src", repo="a/b", base_commit="abc")
task = TraceTask(type="Swe", data=data, key="k1")
WireTrace = Trace[WireTaskData, State, WireAgentConfig]

def trace(number, **more):
    call = ToolCall(id="c1", name="bash", arguments='{"command": "ls"}')
    nodes = [
        MessageNode(message=UserMessage(content="fix it")),
        MessageNode(parent=0, message=AssistantMessage(content="look", tool_calls=[call]), sampled=True),
        MessageNode(parent=1, message=ToolMessage(tool_call_id="c1", content="x")),
        MessageNode(parent=2, message=AssistantMessage(content=f"done {number}"), sampled=True),
    ]
    agent = AgentInfo(config=WireAgentConfig(), name=more.pop("name", "solver"), trainable=more.pop("trainable", True))
    made = WireTrace(id=f"t{number}", task=task, agent=agent, nodes=nodes, verifiers=VersionInfo(version="0.4.0"))
    made.ok = True
    for name, score in more.pop("scores", {}).items():
        made.record_reward(name, score, weight=0.5)
    for name, value in more.items():
        setattr(made, name, value)
    return made

passed = trace(0, scores={"tests": 1.0, "style": 1.0}, info={"patch": PATCH, "test_output": "1 passed"})
judge = trace(1, name="judge", trainable=False)
retried = trace(2, scores={"tests": 0.0}, errors=[Error(type="SandboxError", message="gone")])  # then it came through
retried.stop("max_total_tokens")
broken = trace(3)
broken.record_error(vf.SandboxError("gone"))
broken.rewards = {"tests": None}
late = trace(4, scores={"tests": 1.0})
late.record_timeout("setup")
cut = trace(5, scores={"tests": 0.0}, calls=[ModelCall(node=3, finish_reason="length")], info={"patch": "x", "patch_truncated": True})
overtime = trace(6, scores={"tests": 0.0})
overtime.record_timeout("agent")
for traces in ([passed, judge], [retried], [broken], [late], [cut], [overtime]):
    episode = WireEpisode(task=task, traces=traces, ok=all(each.ok for each in traces), group=vf.GroupInfo(id="g1"))
    episode.record_run(TrainRunInfo(id="r", work=TrainWorkInfo(step=4)))
    write_episode(out, episode)
"""


def test_verifiers_traces(native: Any, tmp_path: Path) -> None:
    installed(VERIFIERS)
    stand_ins = ("renderers", "anthropic", "httpx", "prime_sandboxes", "tomli_w", "math_verify")
    run_with_stand_ins(f"PATCH = {PATCH!r}\n" + TRACES, str(tmp_path), stand_ins=stand_ins)
    dump = native({}, "traces.jsonl")
    assert dump.forms[0][0] == "verifiers-1"
    assert rows_of(dump, "step", "group_id", "trajectory_id", "reward", "invalid_reason") == [
        (4, "g1", "t0", 1.0, None), (4, "g1", "t1", None, "mask_sample"), (4, "g1", "t2", 0.0, None),
        (4, "g1", "t3", None, "infra_failure"), (4, "g1", "t4", None, "infra_failure"),
        (4, "g1", "t5", 0.0, None), (4, "g1", "t6", 0.0, None),
    ]  # fmt: skip
    read = dump.read_trajectories(list(range(7)))
    task, first = read[0]
    assert (task.repo, task.base_commit, task.docker_image, task.problem_statement) == (
        "a/b",
        "abc",
        "img:1",
        "fix it",
    )
    assert (first.model_patch, first.test_output, read[5][1].model_patch) == (PATCH, "1 passed", None)
    assert [(each.role, each.content) for each in first.messages] == [
        ("user", "fix it"), ("assistant", "look"), ("tool", "x"), ("assistant", "done 0"),
    ]  # fmt: skip
    assert (first.messages[1].tool_calls[0].name, first.messages[1].tool_calls[0].arguments) == (
        "bash",
        '{"command": "ls"}',
    )
    truncated = [record.get("termination") for record in dump.iter_records() if record.get("is_truncated")]
    assert truncated == ["truncated_context", "truncated_context", "truncated_time"]


def legacy_writer(read: Any) -> Any:
    names = {
        "ErrorInfo": dict, "RolloutOutput": dict, "TokenUsage": dict, "State": dict, "StateUsageTracker": type("Tracker", (), {}),
    }  # fmt: skip
    messages = lifted(
        read("message_utils.py"),
        {"serialize_message_for_output": (), "serialize_messages_for_output": (), "sanitize_tool_calls": ()}, json=json,
    )  # fmt: skip
    errors = lifted(
        read("error_utils.py"), {"ErrorChain": ("__init__", "__repr__", "__str__"), "get_error_chain": ()}
    )
    return lifted(
        read("save_utils.py"),
        {"state_to_output": (), "save_outputs": (), "make_serializable": (), "is_json_serializable": (),
         "serialize_timing": (), "_extract_state_token_usage": (), "_coerce_token_usage": ()},
        json=json, Any=Any, cast=cast, Mapping=Mapping, BaseModel=BaseModel, datetime=datetime, date=date, Path=Path,
        ErrorChain=errors.ErrorChain, serialize_messages_for_output=messages.serialize_messages_for_output,
        sanitize_tool_calls=messages.sanitize_tool_calls, **names,
    )  # fmt: skip


def test_verifiers_results(native: Any, tmp_path: Path) -> None:
    code = legacy_writer(lambda name: source(VERIFIERS_0, f"verifiers/utils/{name}", LEGACY))
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}

    def state(example: int, reward: float, **more: Any) -> dict[str, Any]:
        return {
            "example_id": example, "prompt": [{"role": "user", "content": "fix it"}], "reward": reward, "timing": {"total_ms": 1},
            "completion": [
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "x"},
                {"role": "assistant", "content": "done"},
            ],
            "is_completed": True, "info": {"instance_id": "a__b-1"}, "metrics": {"tests": reward}, "model_patch": PATCH,
            "token_usage": {"input_tokens": 10, "output_tokens": 7}, **more,
        }  # fmt: skip

    states = [
        state(3, 1.0),
        state(3, 0.0, is_truncated=True, stop_condition="max_turns_reached"),
        state(3, 0.0, error=RuntimeError("gone"), completion=None),
        state(4, 1.0),
    ]
    outputs = [code.state_to_output(each, ["model_patch"]) for each in states]
    code.save_outputs(outputs, tmp_path / "swe--m" / "0123abcd")
    dump = native({}, "swe--m/0123abcd/results.jsonl")
    assert dump.forms[0][0] == "verifiers"
    assert rows_of(dump, "group_id", "reward", "invalid_reason", "n_output_tokens") == [
        ("3", 1.0, None, 7), ("3", 0.0, None, 7), ("3", None, "infra_failure", 7), ("4", 1.0, None, 7),
    ]  # fmt: skip
    read = dump.read_trajectories([0, 1])
    assert [each.is_truncated for _, each in read] == [False, True]
    log = read[0][1].messages
    assert ([each.role for each in log], read[0][1].model_patch) == (
        ["user", "assistant", "tool", "assistant"],
        PATCH,
    )
    assert (log[1].tool_calls[0].name, log[1].tool_calls[0].arguments) == ("bash", '{"command": "ls"}')
    reasons = [record.get("infra_failure_reason") for record in dump.iter_records()]
    assert reasons[2] == "RuntimeError"


AGENT = """
import json, os
from pathlib import Path
os.environ["MSWEA_SILENT_STARTUP"] = "1"
os.environ["MSWEA_GLOBAL_CONFIG_DIR"] = sys.argv[1]
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import DeterministicToolcallModel, make_toolcall_output

submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; printf '%s' \\"$PATCH\\""

def said(text, command):
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}
    return make_toolcall_output(text, [call], [{"command": command, "tool_call_id": "c1"}])

class Broken(DeterministicToolcallModel):
    def query(self, messages, **more):
        raise ConnectionError("gone")

runs = {
    "done": (DeterministicToolcallModel, [said("look", "echo seen"), said("end", submit)], {}),
    "limit": (DeterministicToolcallModel, [said("look", "echo seen")] * 3, {"step_limit": 2}),
    "broken": (Broken, [said("look", "echo seen")], {}),
}
for name, (model, outputs, limits) in runs.items():
    environment = LocalEnvironment(cwd=sys.argv[1], env={"PATCH": PATCH})
    agent = DefaultAgent(
        model(outputs=outputs), environment, system_template="you fix", instance_template="{{task}}",
        output_path=Path(sys.argv[1], "runs", name, "a__b-1", "a__b-1.traj.json"), **limits,
    )
    try:
        agent.run("fix it")
    except ConnectionError:
        pass
    agent.save(agent.config.output_path, {"instance_id": "a__b-1"})
unfinished = DefaultAgent(DeterministicToolcallModel(outputs=[]), LocalEnvironment(), system_template="", instance_template="")
unfinished.add_messages({"role": "user", "content": "fix it"})
unfinished.save(Path(sys.argv[1], "runs", "killed", "a__b-1", "a__b-1.traj.json"), {"instance_id": "a__b-1"})
"""


def test_mini_swe_agent(native: Any, tmp_path: Path) -> None:
    installed(MINI)
    run_with_stand_ins(f"PATCH = {PATCH!r}\n" + AGENT, str(tmp_path))
    report = tmp_path / "runs" / "done" / "report.json"
    report.write_text(json.dumps({"resolved_ids": ["a__b-1"], "submitted_ids": ["a__b-1"]}))
    dump = native({}, "runs", joins=("runs/done/report.json",))
    assert rows_of(dump, "group_id", "passed", "invalid_reason") == [
        ("a__b-1", False, "infra_failure"), ("a__b-1", True, None),
        ("a__b-1", False, "infra_failure"), ("a__b-1", False, "not_evaluated"),
    ]  # fmt: skip
    found = {
        record["trajectory_id"].split("/")[0]: (record["exit_status"], record.get("infra_failure_reason"))
        for record in dump.iter_records()
    }
    assert found == {
        "broken": ("ConnectionError", "the run ended with the exception ConnectionError"),
        "done": ("Submitted", None),
        "killed": ("", "the run did not end"),
        "limit": ("LimitsExceeded", None),
    }
    done = dump.read_trajectories([1])[0][1]
    assert done.model_patch is not None
    assert done.model_patch.strip() == PATCH.strip()
    assert [each.role for each in done.messages][:5] == ["system", "user", "assistant", "tool", "assistant"]
    assert done.messages[2].tool_calls[0].arguments == '{"command": "echo seen"}'
