"""verl: a trainer mode that redistributes a step's rewards before verl makes advantages of them.

    export VERL_USE_EXTERNAL_MODULES=verl_trainer
    python -m verl.trainer.main_ppo trainer.use_v1=True trainer.v1.trainer_mode=gagar \
        algorithm.adv_estimator=grpo algorithm.norm_adv_by_std_in_grpo=False ...

`norm_adv_by_std_in_grpo=False` is needed: dividing by the deviation would change the sums. The agent loop puts what the
grader is to see (`model_patch`, `messages`, …) into `extra_fields["gagar"]` of its output.
"""

import torch
import transfer_queue as tq
from gagar_step import redistribute_rewards, with_facts
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer
from verl.utils import tensordict_utils as tu


@register_trainer("gagar")
class GagarTrainer(PPOTrainerSync):
    """The synchronous trainer with other rewards."""

    def _compute_advantage(self, batch, metrics):
        fields = ["uid", "rm_scores", "extra_fields"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
        scores = list(data["rm_scores"].unbind())
        # `{uid}_{session}_{output}`: the outputs of a session are one attempt, of which verl takes the last one's reward.
        sessions, outputs = zip(*(key.rsplit("_", 1) for key in batch.keys), strict=True)
        last = {sessions[row]: row for row in sorted(range(len(outputs)), key=lambda row: int(outputs[row]))}
        uids, extras = data["uid"].tolist(), data["extra_fields"].tolist()
        records = [
            with_facts(
                {
                    "group_id": str(uids[row]),
                    "trajectory_id": session,
                    "reward": float(scores[row].sum()),
                },
                (extras[row] or {}).get("gagar") or {},
            )
            for session, row in last.items()
        ]
        rewards = dict(zip(last, redistribute_rewards(records, metrics), strict=True))
        replaced = []
        for session, score in zip(sessions, scores, strict=True):
            made = torch.zeros_like(score)
            made[-1] = rewards[session]
            replaced.append(made)
        nested = torch.nested.as_nested_tensor(replaced, layout=torch.jagged)
        written = tu.get_tensordict({"rm_scores": nested})
        tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=written)
        return super()._compute_advantage(batch, metrics)
