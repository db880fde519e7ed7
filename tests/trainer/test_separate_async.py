"""verl's trainer with a rollout on devices of its own: two updates of the actor in every step."""

from pathlib import Path

import pytest

from tests.support import trainer
from tests.support.expect import ESTIMATOR, LOSS, OPEN, micro_batches, stare_acted
from tests.support.trainer import Assets

pytestmark = pytest.mark.trainer

SEPARATE = [
    "trainer.v1.trainer_mode=separate_async",
    "trainer.v1.separate_async.parameter_sync_step=2",
    "data.train_batch_size=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    *micro_batches(32),
    "actor_rollout_ref.rollout.nnodes=1",
    "actor_rollout_ref.rollout.n_gpus_per_node=1",
    "actor_rollout_ref.rollout.calculate_log_probs=True",
]
STALENESS = "training/off_policy/trajectory_staleness_worst/{0}"
# The rollout cannot sample ids without a token, which scales its probabilities: their correlation
# with the actor's says whether both have the same weights. Two updates take it below 0.98.
AGREEMENT = "training/rollout_actor_probs_pearson_corr"
SAME_WEIGHTS = 0.999


def test_one_batch_ahead_with_replicas_beside_the_trainer(tmp_path: Path, assets: Assets) -> None:
    run = trainer.run(tmp_path, assets, 2, *ESTIMATOR, *OPEN, *SEPARATE, record=True)
    stare_acted(run, 2)
    # One decision for each update's 4 prompts of 8 samples; the record is the last one's.
    assert len(run.rows(1)) == len(run.rows(2)) == 32
    first, second = run.metrics
    assert first[STALENESS.format("max")] == 0
    # The second update is taken from the weights that the first began with, as the rollout was.
    assert first[AGREEMENT] > SAME_WEIGHTS
    # Sampled before the first step's weights had come.
    assert second[STALENESS.format("max")] == 1
    assert second[AGREEMENT] < first[AGREEMENT]


def test_every_step_samples_from_the_weights_of_the_last(
    tmp_path: Path, assets: Assets, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without replicas beside the trainer, verl 0.9.1 logs a line with an argument that `logging`
    # does not have, and stops, unless that line is not logged.
    monkeypatch.setenv("VERL_LOGGING_LEVEL", "WARNING")
    run = trainer.run(
        tmp_path,
        assets,
        2,
        "algorithm.adv_estimator=grpo",
        *LOSS,
        *OPEN,
        *SEPARATE,
        "actor_rollout_ref.hybrid_engine=False",
        "trainer.v1.separate_async.num_warmup_batches=0",
    )
    stare_acted(run, 2, in_actor=True)
    for step in run.metrics:
        # The server names the version of the weights that it has: 0, then 1.
        assert step[STALENESS.format("min")] == step[STALENESS.format("max")] == 0
        assert step[AGREEMENT] > SAME_WEIGHTS
