"""What every run of the trainer with an open gate shows, and the settings that it opens with."""

from collections.abc import Sequence

import pytest

from tests.support.trainer import Run

ESTIMATOR = ["algorithm.adv_estimator=stare"]
LOSS = ["actor_rollout_ref.actor.policy_loss.loss_mode=stare"]
OPEN = ["+algorithm.stare.target_entropy=100", "+algorithm.stare.amplify=2.0"]
MICRO = [
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={0}",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu={0}",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu={0}",
]
DYNAMIC = [
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=256",
    "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True",
    "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=256",
]


def micro_batches(size: int) -> list[str]:
    return [override.format(size) for override in MICRO]


def stare_acted(run: Run, steps: int, *, in_actor: bool = False, selected: float = 0.15) -> None:
    """Every step of `run` was weighted, without an entropy in the actor's update."""
    assert run.output.count("is active in verl") == 1
    assert len(run.metrics) == steps
    for step in run.metrics:
        assert step["stare/gate_open"] == 1.0
        assert 0 < step["stare/selected_share"] < selected
        assert step["stare/token_weight"] == pytest.approx(1 + step["stare/selected_share"])
        assert step["stare/nonfinite_tokens"] == 0
        assert step["actor/grad_norm"] > 0
        # The entropy is not computed a second time in the actor's update.
        assert "actor/entropy_loss" not in step
        weights = step.get("actor/stare_token_weight")
        if in_actor:
            # Micro-batches of different sizes count alike in verl's mean of it.
            assert weights == pytest.approx(step["stare/token_weight"], rel=0.05)
        else:
            assert weights is None


def has(run: Run, keys: Sequence[str]) -> None:
    for key in keys:
        assert all(key in step for step in run.metrics), key
