"""Whether batches divide by ranks, and lengths fit each other and the model."""

from __future__ import annotations

from typing import Any

from verl_stare.preflight.findings import Findings
from verl_stare.preflight.model import Shape

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
NODES, PER_NODE = "trainer.nnodes", "trainer.n_gpus_per_node"


def check_ranks(config: Any, findings: Findings) -> None:
    """Report batches and groups of GPUs that do not divide."""
    trainer, data = config.trainer, config.data
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    per_node, ranks = trainer.n_gpus_per_node, trainer.nnodes * trainer.n_gpus_per_node
    place = f"{NODES}={trainer.nnodes}, {PER_NODE}={per_node}"
    if trainer.nnodes < 1 or per_node < 1:
        findings.problem(f"{place}: must be at least 1")
        return
    split = actor.get("ulysses_sequence_parallel_size", 1)
    if ranks % split:
        findings.problem(
            f"{ACTOR}.ulysses_sequence_parallel_size={split}: does not divide the {ranks} ranks "
            f"({place})"
        )
        return
    groups = ranks // split
    for key, prompts in (
        ("data.train_batch_size", data.train_batch_size),
        (f"{ACTOR}.ppo_mini_batch_size", actor.ppo_mini_batch_size),
    ):
        if prompts * rollout.n % groups:
            findings.problem(
                f"{key}={prompts}: {prompts} prompts of {rollout.n} samples do not divide by "
                f"{groups} data-parallel ranks ({place})"
            )
    if data.train_batch_size % actor.ppo_mini_batch_size:
        findings.problem(
            f"{ACTOR}.ppo_mini_batch_size={actor.ppo_mini_batch_size}: does not divide "
            f"data.train_batch_size={data.train_batch_size}"
        )
    if per_node % rollout.tensor_model_parallel_size:
        findings.problem(
            f"{ROLLOUT}.tensor_model_parallel_size={rollout.tensor_model_parallel_size}: does not "
            f"divide {PER_NODE}={per_node}"
        )


def check_lengths(config: Any, shape: Shape, findings: Findings) -> None:
    """Report lengths that exceed the model's positions, the rollout's or a micro-batch."""
    data = config.data
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    length = data.max_prompt_length + data.max_response_length
    sum_of = (
        f"data.max_prompt_length={data.max_prompt_length} + "
        f"data.max_response_length={data.max_response_length} = {length}"
    )
    if length > shape.positions:
        findings.problem(f"{sum_of}: more than the model's {shape.positions} positions")
    if rollout.max_model_len is not None and rollout.max_model_len < length:
        findings.problem(f"{ROLLOUT}.max_model_len={rollout.max_model_len}: less than {sum_of}")
    elif rollout.max_model_len is not None and rollout.max_model_len > shape.positions:
        findings.problem(
            f"{ROLLOUT}.max_model_len={rollout.max_model_len}: more than the model's "
            f"{shape.positions} positions"
        )
    split = actor.get("ulysses_sequence_parallel_size", 1)
    for key, dynamic, tokens in (
        (
            f"{ACTOR}.ppo_max_token_len_per_gpu",
            actor.use_dynamic_bsz,
            actor.ppo_max_token_len_per_gpu,
        ),
        (
            f"{ROLLOUT}.log_prob_max_token_len_per_gpu",
            rollout.log_prob_use_dynamic_bsz,
            rollout.log_prob_max_token_len_per_gpu,
        ),
    ):
        if dynamic and tokens * split < length:
            findings.problem(
                f"{key}={tokens}: a trajectory of {length} tokens on {split} GPUs does not fit"
            )
    overlong = config.reward.get("reward_kwargs", {}).get("overlong_buffer_cfg")
    if overlong and overlong.enable and not 0 < overlong.len <= data.max_response_length:
        findings.problem(
            f"reward.reward_kwargs.overlong_buffer_cfg.len={overlong.len}: must be in (0, "
            f"data.max_response_length={data.max_response_length}]"
        )
    for key, size, heads in (
        (f"{ROLLOUT}.tensor_model_parallel_size", rollout.tensor_model_parallel_size, shape.heads),
        (f"{ACTOR}.ulysses_sequence_parallel_size", split, shape.heads),
    ):
        if heads % size:
            findings.problem(f"{key}={size}: does not divide the model's {heads} attention heads")


def check_method(config: Any, findings: Findings) -> None:
    """Warn of a method that has nothing to act on."""
    actor, batch = config.actor_rollout_ref.actor, config.data.train_batch_size
    updates = actor.ppo_epochs * max(1, batch // actor.ppo_mini_batch_size)
    if actor.policy_loss.loss_mode == "kl_cov" and updates == 1:
        findings.warn(
            f"{ACTOR}.policy_loss.loss_mode=kl_cov: with one update a batch the policy has not "
            f"moved, so its penalty has no gradient: lower {ACTOR}.ppo_mini_batch_size, in all "
            "arms that are compared"
        )
