"""SkyRL: a trainer that redistributes before advantages are made.

    python skyrl_trainer.py trainer.algorithm.advantage_estimator=grpo trainer.algorithm.grpo_norm_by_std=false ...

Without the division by the deviation, SkyRL's GRPO of these rewards is the redistributed advantage.
"""

import sys

import ray
from gagar_step import redistribute_rewards
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp, validate_cfg
from skyrl.train.trainer import RayPPOTrainer
from skyrl.train.utils import initialize_ray


class GagarTrainer(RayPPOTrainer):
    """Replaces the rewards of whole trajectories; the base class spreads them over tokens."""

    def postprocess_generator_output(
        self, generator_output, uids, metrics_generator_output=None, metrics_uids=None
    ):
        """The same output with other rewards; SkyRL's metrics stay those of its own, ours are added."""
        rewards = generator_output["rewards"]
        if rewards and isinstance(rewards[0], list):
            raise ValueError("rewards a token are not supported: turn off step_wise_trajectories")
        records = [
            {
                "group_id": str(uid),
                "trajectory_id": str(number),
                "reward": float(reward),
                "messages": [{"role": "assistant", "content": self.tokenizer.decode(response)}],
            }
            for number, (uid, reward, response) in enumerate(
                zip(uids, rewards, generator_output["response_ids"], strict=True)
            )
        ]
        replaced = redistribute_rewards(records, self.all_metrics)
        measured = generator_output if metrics_generator_output is None else metrics_generator_output
        return super().postprocess_generator_output(
            {**generator_output, "rewards": replaced},
            uids,
            measured,
            uids if metrics_uids is None else metrics_uids,
        )


class GagarExp(BasePPOExp):
    """The experiment with that trainer."""

    def get_trainer(self, *args, **kwargs):
        """The trainer."""
        return GagarTrainer(*args, **kwargs)


def main():
    """As SkyRL's own entry points do it."""
    cfg = SkyRLTrainConfig.from_cli_overrides(sys.argv[1:])
    validate_cfg(cfg)
    initialize_ray(cfg)
    ray.get(ray.remote(num_cpus=1)(lambda: GagarExp(cfg).run()).remote())


if __name__ == "__main__":
    main()
