"""prime-rl: a custom advantage of a group, spread over its tokens.

    [orchestrator.advantage]
    type = "custom"
    import_path = "prime_rl_advantage.gagar_advantage"

For verifiers environments whose rollouts hold `prompt`, `completion` and `reward`, and the patch in `info`.
"""

import json

from gagar_step import redistribute_step, with_facts


def _messages(value, role):
    """A prompt or a completion, text or messages; verifiers writes each call of a tool as JSON text."""
    entries = [{"role": role, "content": value}] if isinstance(value, str) else value or []
    return [
        {
            **entry,
            "tool_calls": [
                json.loads(call) if isinstance(call, str) else call for call in entry["tool_calls"]
            ],
        }
        if entry.get("tool_calls")
        else entry
        for entry in entries
    ]


def gagar_advantage(inputs, **kwargs):
    """Per-token advantages, one list a rollout."""
    records = [
        with_facts(
            {
                "group_id": "group",
                "trajectory_id": str(number),
                "reward": rollout["reward"],
                "infra_failure": bool(rollout.get("error")),
                "messages": [
                    *_messages(rollout["prompt"], "user"),
                    *_messages(rollout["completion"], "assistant"),
                ],
            },
            kwargs.get("fields", {}) | (info if isinstance(info := rollout.get("info"), dict) else {}),
        )
        for number, rollout in enumerate(inputs.rollouts)
    ]
    return inputs.broadcast([credit.advantage or 0.0 for credit in redistribute_step(records)])
