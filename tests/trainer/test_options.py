"""verl's trainers and options that change rows, masks, rewards or advantages, with STARE on."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.support import trainer
from tests.support.expect import ESTIMATOR, LOSS, OPEN, has, micro_batches, stare_acted
from tests.support.trainer import SUPPORT, Assets

pytestmark = pytest.mark.trainer


def test_colocate_async_with_a_kl_loss(tmp_path: Path, assets: Assets) -> None:
    run = trainer.run(
        tmp_path,
        assets,
        2,
        *ESTIMATOR,
        *OPEN,
        "trainer.v1.trainer_mode=colocate_async",
        "actor_rollout_ref.actor.use_kl_loss=True",
    )
    stare_acted(run, 2)
    has(run, ["actor/kl_loss"])
    # The second batch was begun before the first was trained on.
    assert run.metrics[1]["training/off_policy/trajectory_staleness_worst/max"] == 1


def test_dynamic_sampling_with_kl_in_the_reward(tmp_path: Path, assets: Assets) -> None:
    run = trainer.run(
        tmp_path,
        assets,
        2,
        *ESTIMATOR,
        *OPEN,
        "actor_rollout_ref.rollout.n=2",
        *micro_batches(16),
        "algorithm.filter_groups.enable=True",
        "algorithm.filter_groups.metric=acc",
        "algorithm.use_kl_in_reward=True",
        "algorithm.kl_ctrl.kl_coef=0.01",
    )
    stare_acted(run, 2)
    has(run, ["actor/reward_kl_penalty"])
    assert sum(step["training/filter_groups/evicted_samples"] for step in run.metrics) > 0


def test_bypass_mode_gates_on_the_sampled_surprisal(tmp_path: Path, assets: Assets) -> None:
    run = trainer.run(
        tmp_path, assets, 2, *ESTIMATOR, *LOSS, *OPEN,
        "algorithm.rollout_correction.bypass_mode=True",
        "actor_rollout_ref.rollout.calculate_log_probs=True",
    )  # fmt: skip
    stare_acted(run, 2, in_actor=True)
    assert "gate on mean sampled surprisal (bypass mode)" in run.output
    has(run, ["stare/entropy_is_sampled"])
    # There is no entropy pass, and an untrained policy's entropy is near that of a uniform one.
    assert "actor/entropy" not in run.metrics[0]
    assert 4.0 < run.metrics[0]["stare/batch_entropy"] < 7.0


CORRECTION = "algorithm.rollout_correction"


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_rollout_correction(tmp_path: Path, assets: Assets, level: str) -> None:
    """By tokens with the estimator, by sequences with the loss; the rejected play no part."""
    toggle = ESTIMATOR if level == "token" else ["algorithm.adv_estimator=grpo", *LOSS]
    reject = "token_k1" if level == "token" else "seq_mean_k1"
    run = trainer.run(
        tmp_path,
        assets,
        2,
        *toggle,
        *OPEN,
        "actor_rollout_ref.rollout.calculate_log_probs=True",
        f"{CORRECTION}.rollout_is={level}",
        f"{CORRECTION}.rollout_rs={reject}",
        # The rollout cannot sample ids without a token, so its probabilities are 1.6 % higher.
        f"{CORRECTION}.rollout_rs_threshold='0.9_1.016'",
        record=level == "token",
    )
    stare_acted(run, 2, in_actor=level == "sequence")
    has(run, ["rollout_corr/rollout_is_mean", "rollout_corr/rollout_rs_masked_fraction"])
    if level == "token":
        rejected = kept = 0
        for values in run.rows(1).values():
            assert (values["weights"][values["mask"] == 0] == 1).all()
            rejected += int((values["mask"] == 0).sum())
            kept += int((values["mask"] != 0).sum())
        assert rejected > 0
        assert kept > 0


def test_a_critic_for_a_base_that_needs_one(tmp_path: Path, assets: Assets) -> None:
    """GAE, two epochs of mini-batches smaller than the batch, several signs in a row.

    Rewards are the grader's, through verl's `dapo` manager with its penalty of long responses.
    """
    run = trainer.run(
        tmp_path,
        assets,
        2,
        *ESTIMATOR,
        *OPEN,
        "+algorithm.stare.base_estimator=gae",
        "algorithm.lam=0.9",
        f"critic.model.path={assets.folder / 'model'}",
        *micro_batches(16),
        "critic.ppo_mini_batch_size=4",
        "critic.ppo_micro_batch_size_per_gpu=32",
        "actor_rollout_ref.actor.ppo_mini_batch_size=4",
        "actor_rollout_ref.actor.ppo_epochs=2",
        "reward.custom_reward_function.path=pkg://verl_stare.rewards",
        "+reward.custom_reward_function.reward_kwargs.wrong=-1.0",
        "+reward.custom_reward_function.reward_kwargs.lenient=True",
        "reward.reward_manager.name=dapo",
        "+reward.reward_kwargs.max_resp_len=16",
        "+reward.reward_kwargs.overlong_buffer_cfg={enable: true, len: 16, penalty_factor: 0.5, "
        "log: false}",
        record=True,
    )
    stare_acted(run, 2)
    has(run, ["critic/vf_loss", "critic/values/mean"])
    # An untrained model's answers are wrong, and penalised by up to 0.5 for their length.
    assert all(-1.5 <= step["critic/score/min"] < -1.0 for step in run.metrics)
    rows = run.rows(1).values()
    signs = [values["base"].sign().unique().numel() for values in rows]
    assert max(signs) > 1
    for values in rows:
        assert (values["weights"][values["base"] <= 0] == 1).all()


def test_conversations_with_a_tool_and_several_outputs(tmp_path: Path, assets: Assets) -> None:
    problems = pq.read_table(assets.folder / "data" / "train.parquet")
    column = problems.schema.get_field_index("agent_name")
    agents = pa.array(["tool_agent"] * len(problems))
    pq.write_table(problems.set_column(column, "agent_name", agents), tmp_path / "train.parquet")
    run = trainer.run(
        tmp_path,
        assets,
        2,
        *ESTIMATOR,
        *OPEN,
        "data.max_response_length=48",
        "actor_rollout_ref.rollout.max_model_len=128",
        f"data.train_files={tmp_path / 'train.parquet'}",
        "actor_rollout_ref.rollout.multi_turn.enable=True",
        "actor_rollout_ref.rollout.multi_turn.format=even",
        "actor_rollout_ref.rollout.multi_turn.max_assistant_turns=3",
        "actor_rollout_ref.rollout.multi_turn.tokenization_sanity_check_mode=disable",
        f"actor_rollout_ref.rollout.multi_turn.function_tool_path={SUPPORT / 'tools.py'}",
        modules="agents",
        record=True,
    )
    stare_acted(run, 2)
    assert run.metrics[0]["training/num_turns/mean"] > 2
    rows = run.rows(1)
    # 64 sessions, some with two outputs; padding rows, which share one place, fill up to 128.
    assert 64 + 10 < len(rows) < 128
    assert any((values["mask"] == 0).all() for values in rows.values())
    tool = torch.cat([values["weights"][values["mask"] == 0] for values in rows.values()])
    assert tool.numel() > 100
    assert (tool == 1).all()
    model = torch.cat([values["weights"][values["mask"] != 0] for values in rows.values()])
    assert int((model == 2).sum()) > 10
