"""OpenRLHF: an experience maker that redistributes before it subtracts the group's mean.

    python openrlhf_train.py --algo.advantage.estimator dr_grpo ...

`dr_grpo` subtracts the mean and divides by nothing. OpenRLHF calls reward functions one sample at a time, so that a group
can only be seen here. The label of a prompt may be JSON text with what the grader is to see beside the response.
"""

import json

import openrlhf.trainer.ppo_trainer as ppo_trainer
from gagar_step import redistribute_rewards, with_facts
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker


class GagarExperienceMaker(RemoteExperienceMaker):
    """The experience maker with other rewards."""

    def compute_advantages_and_returns(self, experiences):
        """Rewards replaced, then as ever."""
        n_samples = self.strategy.args.rollout.n_samples_per_prompt
        for experience in experiences:
            experience.rewards = experience.rewards.float()  # a reward such as 1.118 is none in bfloat16
        rows = [(experience, row) for experience in experiences for row in range(len(experience.index))]
        records = []
        for experience, row in rows:
            number = int(experience.index[row])
            record = {
                "group_id": str(number // n_samples),
                "trajectory_id": str(number),
                "reward": float(experience.rewards[row]),
                "problem_statement": experience.prompts[row],
            }
            label = experience.labels[row]
            told = json.loads(label) if label and label.lstrip().startswith("{") else {}
            records.append(with_facts(record, told))
        metrics = {}
        for (experience, row), reward in zip(rows, redistribute_rewards(records, metrics), strict=True):
            experience.rewards[row] = reward
        for experience in experiences:  # OpenRLHF logs the mean of each entry of `info`
            for name, value in metrics.items():
                experience.info[name] = experience.rewards.new_tensor([value] * len(experience.index))
        return super().compute_advantages_and_returns(experiences)


ppo_trainer.RemoteExperienceMaker = GagarExperienceMaker

if __name__ == "__main__":
    import runpy

    runpy.run_module("openrlhf.cli.train_ppo_ray", run_name="__main__")
