"""Weights taken in the actor, through verl's trainer: both toggles, several losses and splits."""

from pathlib import Path

import pytest

from tests.support import trainer
from tests.support.expect import DYNAMIC, ESTIMATOR, LOSS, OPEN, micro_batches, stare_acted
from tests.support.trainer import Assets, Run

pytestmark = pytest.mark.trainer


@trainer.hf_only
def test_the_first_step_is_that_of_weighted_advantages(
    tmp_path: Path, assets: Assets, open_gate: Run
) -> None:
    """Both toggles at once, in micro-batches of 4 where the other run has one of all."""
    run = trainer.run(tmp_path, assets, 2, *ESTIMATOR, *LOSS, *OPEN, *micro_batches(4))
    stare_acted(run, 2, in_actor=True)
    ours, theirs = run.metrics[0], open_gate.metrics[0]
    for key in ("actor/pg_loss", "actor/grad_norm", "actor/ppo_kl"):
        assert ours[key] == pytest.approx(theirs[key], rel=1e-4, abs=1e-5), key
    for key in ("stare/batch_entropy", "stare/selected_share", "stare/surprisal_selected"):
        assert ours[key] == pytest.approx(theirs[key], rel=1e-4), key


def test_ranks_rows_and_epochs_that_do_not_divide(tmp_path: Path, assets: Assets) -> None:
    """21 rows on two ranks in mini-batches of 12, twice over: verl fills up with padding rows."""
    run = trainer.run(
        tmp_path,
        assets,
        2,
        *ESTIMATOR,
        "+algorithm.stare.base_estimator=rloo",
        *LOSS,
        *OPEN,
        "trainer.n_gpus_per_node=2",
        "data.train_batch_size=7",
        "actor_rollout_ref.rollout.n=3",
        "actor_rollout_ref.actor.ppo_mini_batch_size=4",
        "actor_rollout_ref.actor.ppo_epochs=2",
        *DYNAMIC,
    )
    # Off-policy from the second mini-batch on: fewer or more tokens exceed the thresholds.
    assert len(run.metrics) == 2
    for step in run.metrics:
        assert step["stare/gate_open"] == 1.0
        assert step["actor/stare_token_weight"] > 1.0
        assert step["actor/ppo_kl"] != 0
        assert step["actor/grad_norm"] > 0


def test_lora_with_selection_inside_micro_batches(tmp_path: Path, assets: Assets) -> None:
    run = trainer.run(
        tmp_path,
        assets,
        2,
        "algorithm.adv_estimator=grpo",
        *LOSS,
        *OPEN,
        "+algorithm.stare.scope=micro_batch",
        *micro_batches(1),
        "actor_rollout_ref.model.lora_rank=4",
        "actor_rollout_ref.model.lora_alpha=8",
        "actor_rollout_ref.model.lora.merge=True",
        # Its reference is the actor without the adapter.
        "actor_rollout_ref.actor.use_kl_loss=True",
    )
    for step in run.metrics:
        # At least one token of each positive row: more than 10 % of the batch.
        assert step["actor/stare_token_weight"] > step["stare/token_weight"]
        assert step["actor/grad_norm"] > 0
    assert len(run.metrics) == 2
