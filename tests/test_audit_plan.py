import json
from contextlib import ExitStack
from pathlib import Path

from gagar_cli.audit_plan import Source, open_dumps, plan_audit, read_group
from gagar_cli.core.scrubbing import Scrubber
from gagar_cli.io.dump import ReadOptions
from gagar_cli.io.packed_logs import PackedLog

LINE = "acme-coder-1 looked at the log\n"


def write_dump(path: Path) -> tuple[str, ...]:
    log = [
        {"role": "system", "content": "you are acme-coder-1"},
        {"role": "assistant", "content": "I look"},
        {"role": "tool", "content": LINE * 60_000},
    ]
    record = {"group_id": "g", "resolved": True, "messages": log, "test_output": LINE * 1_000}
    lines = [json.dumps({**record, "trajectory_id": f"t{number}"}) for number in range(2)]
    path.write_text("\n".join([*lines, json.dumps({**record, "trajectory_id": "f", "resolved": False})]))
    return (str(path),)


def test_a_long_log_is_scrubbed_and_kept_out_of_memory(tmp_path):
    source = Source((("old", write_dump(tmp_path / "a.jsonl")), ("new", write_dump(tmp_path / "b.jsonl"))))
    with ExitStack() as stack:
        dumps = open_dumps(source, ReadOptions(), stack)
        (task,) = plan_audit(source, dumps, n_tasks=None, per_task=1, seed=0).tasks
        group = read_group(task, dumps, Scrubber(["acme-coder-1"]), shows="full")
    scrubbed = LINE.replace("acme-coder-1", "policy")
    for one in group.trajectories:
        assert isinstance(one.messages, PackedLog)
        assert [message.content for message in one.messages] == ["I look", scrubbed * 60_000]
        assert one.test_output == scrubbed * 1_000
