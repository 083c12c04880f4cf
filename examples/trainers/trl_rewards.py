"""TRL: a reward function whose rewards give the redistributed advantages.

    rewards = make_gagar_reward(passes=lambda completion, task_id: run_the_tests(completion, task_id))
    GRPOTrainer(..., reward_funcs=rewards, args=GRPOConfig(scale_rewards="none", ...))

`scale_rewards="none"` is needed: dividing by the deviation would change the sums. A process sees its own completions only,
so `per_device_train_batch_size` has to be a multiple of `num_generations`. The dataset has a column `task_id`.
"""

from collections import Counter

from gagar_step import redistribute_rewards


def make_gagar_reward(passes):
    """The reward function; `passes(completion, task_id)` says whether an attempt passes its tests."""

    def gagar_reward(prompts, completions, completion_ids, *, task_id, **kwargs):  # noqa: ARG001 - TRL calls by name
        """One reward a completion."""
        seen = Counter()
        records = []
        for prompt, completion, task in zip(prompts, completions, task_id, strict=True):
            seen[task] += 1
            messages = (
                completion if isinstance(completion, list) else [{"role": "assistant", "content": completion}]
            )
            problem = prompt if isinstance(prompt, str) else prompt[-1]["content"]
            records.append(
                {
                    "group_id": str(task),
                    "trajectory_id": f"{task}-{seen[task]}",
                    "resolved": passes(completion, task),
                    "problem_statement": problem,
                    "messages": messages,
                }
            )
        metrics = {}
        rewards = redistribute_rewards(records, metrics)
        if "log_metric" in kwargs:
            for name, value in metrics.items():
                kwargs["log_metric"](name, value)
        return rewards

    return gagar_reward
