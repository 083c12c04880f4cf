"""prime-rl: a custom advantage of a group, spread over its tokens.

    [orchestrator.advantage]
    type = "custom"
    import_path = "prime_rl_advantage.gagar_advantage"

For verifiers environments whose rollouts hold `prompt`, `completion` and `reward`, and the patch in `info`.
"""

from gagar_step import redistribute_step


def gagar_advantage(inputs, **kwargs):
    """Per-token advantages, one list a rollout."""
    records = [
        {
            "group_id": "group",
            "trajectory_id": str(number),
            "reward": rollout["reward"],
            "messages": [*rollout["prompt"], *rollout["completion"]],
            **kwargs.get("fields", {}),
            **(rollout.get("info") or {}),
        }
        for number, rollout in enumerate(inputs.rollouts)
    ]
    return inputs.broadcast([credit.advantage or 0.0 for credit in redistribute_step(records)])
