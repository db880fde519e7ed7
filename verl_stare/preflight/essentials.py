"""The lines that tell what a run would be: model, data, batch, memory, time, what to expect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from verl_stare.preflight import duration, files, memory
from verl_stare.preflight.batch import ROLLOUT
from verl_stare.preflight.compose import Composed
from verl_stare.preflight.expected import expected
from verl_stare.preflight.findings import Findings
from verl_stare.preflight.model import Shape

GIB = 2**30


def describe_run(composed: Composed, train: list[Path], val: list[Path], found: Findings) -> None:
    """Say what would be trained on what, where."""
    config = composed.config
    actor, rollout, data = (
        config.actor_rollout_ref.actor,
        config.actor_rollout_ref.rollout,
        config.data,
    )
    trainer = config.trainer
    named = [each for each in composed.overrides if each.startswith(("+stare", "+cpu"))]
    found.fact("presets", " ".join(named) or "none")
    found.fact(
        "method",
        f"adv_estimator={config.algorithm.adv_estimator}, "
        f"loss_mode={actor.policy_loss.loss_mode}, reward manager "
        f"{config.reward.reward_manager.name}, dynamic sampling "
        + (
            f"on {config.algorithm.filter_groups.metric}"
            if config.algorithm.filter_groups.enable
            else "off"
        ),
    )
    for label, paths in (("train", train), ("validation", val)):
        counts = [f"{path} ({files.rows(path)} rows)" for path in paths]
        found.fact(label, ", ".join(counts) or "none")
    found.fact(
        "batch",
        f"{data.train_batch_size} prompts of {rollout.n} samples, {actor.ppo_mini_batch_size} "
        f"prompts an update; prompt {data.max_prompt_length} + response "
        f"{data.max_response_length} tokens",
    )
    found.fact(
        "where",
        f"{trainer.nnodes} node(s) of {trainer.n_gpus_per_node} rank(s), {trainer.device}; "
        f"tensor parallel {rollout.tensor_model_parallel_size} ({rollout.name}), sequence "
        f"parallel {actor.get('ulysses_sequence_parallel_size', 1)} ({actor.strategy})",
    )
    found.fact(
        "run",
        f"{trainer.total_training_steps} steps, checkpoints every {trainer.save_freq} in "
        f"{trainer.default_local_dir}, resume {trainer.resume_mode}, logger "
        f"{', '.join([trainer.logger] if isinstance(trainer.logger, str) else trainer.logger)}",
    )
    stare = config.algorithm.get("stare") or {}
    method = composed.choices.get("stare_method") or str(config.algorithm.adv_estimator)
    preset = composed.choices.get("stare", "")
    found.fact("expected", expected(preset, method, stare.get("variant", "O1")))


def estimate_rl(config: Any, shape: Shape, gpu: float, found: Findings) -> None:
    """Say what memory and time a run on GPUs takes; report where memory does not suffice."""
    actor, rollout, trainer = (
        config.actor_rollout_ref.actor,
        config.actor_rollout_ref.rollout,
        config.trainer,
    )
    if actor.strategy not in ("fsdp", "fsdp2"):
        found.warn(f"actor.strategy={actor.strategy}: no estimate of memory, only for fsdp, fsdp2")
        return
    length = config.data.max_prompt_length + config.data.max_response_length
    sharded = actor.fsdp_config.fsdp_size
    ranks = trainer.nnodes * trainer.n_gpus_per_node
    dynamic = actor.use_dynamic_bsz
    setup = memory.Setup(
        ranks=ranks if sharded in (-1, None) else min(sharded, ranks),
        tokens=actor.ppo_max_token_len_per_gpu
        if dynamic
        else (actor.ppo_micro_batch_size_per_gpu or 1) * length,
        log_prob_tokens=rollout.log_prob_max_token_len_per_gpu
        if rollout.log_prob_use_dynamic_bsz
        else (rollout.log_prob_micro_batch_size_per_gpu or 1) * length,
        param_offload=actor.fsdp_config.param_offload,
        optimizer_offload=actor.fsdp_config.optimizer_offload,
        utilization=rollout.gpu_memory_utilization,
        tensor_parallel=rollout.tensor_model_parallel_size,
        model_length=rollout.max_model_len or length,
        checkpointing=config.actor_rollout_ref.model.enable_gradient_checkpointing,
    )
    needed = memory.estimate(shape, setup, gpu)
    _memory_facts(needed, shape, gpu, found)
    found.fact("host memory", f"{needed.host * trainer.n_gpus_per_node / GIB:.0f} GiB a node")
    if needed.sequences < 1:
        found.problem(
            f"{ROLLOUT}.gpu_memory_utilization={rollout.gpu_memory_utilization}: of a GPU of "
            f"{gpu / GIB:.0f} GiB that leaves {max(0.0, needed.cache) / GIB:.1f} GiB for the KV "
            f"cache, less than one sequence of {setup.model_length} tokens"
        )
    remedy = (
        "more GPUs, actor.fsdp_config.param_offload and optimizer_offload, a smaller "
        "ppo_max_token_len_per_gpu (with a larger ulysses_sequence_parallel_size)"
    )
    for phase, bytes_ in (("the update", needed.update), ("the log-prob pass", needed.log_prob)):
        if bytes_ > gpu:
            found.problem(_too_much(phase, bytes_, gpu, remedy))
    if needed.rollout > gpu:
        found.problem(
            _too_much("the rollout", needed.rollout, gpu, "a smaller gpu_memory_utilization")
        )
    generating, rest = duration.step_seconds(
        shape,
        rows=config.data.train_batch_size * rollout.n,
        response=config.data.max_response_length,
        gpus=ranks,
        tensor_parallel=rollout.tensor_model_parallel_size,
    )
    steps = trainer.total_training_steps or 0
    days = (generating + rest) * steps / 86400
    found.fact(
        "time",
        f"about {generating + rest:.0f} s a step ({generating:.0f} s of generation), {days:.1f} "
        f"days for {steps} steps without validation (rough: {duration.ASSUMED})",
    )


def estimate_sft(config: Any, shape: Shape, ranks: int, gpu: float, found: Findings) -> None:
    """The same of supervised training."""
    setup = memory.Setup(
        ranks=ranks,
        tokens=config.data.max_token_len_per_gpu,
        log_prob_tokens=0,
        param_offload=config.engine.param_offload,
        optimizer_offload=config.engine.optimizer_offload,
        utilization=0.0,
        tensor_parallel=1,
        model_length=config.data.max_length,
        checkpointing=config.model.enable_gradient_checkpointing,
    )
    needed = memory.estimate(shape, setup, gpu)
    found.fact("model", f"{shape.parameters / 1e9:.2f} B parameters, {shape.positions} positions")
    found.fact("GPU memory", f"update {needed.update / GIB:.0f} of {gpu / GIB:.0f} GiB (estimated)")
    if needed.update > gpu:
        found.problem(
            _too_much(
                "the update",
                needed.update,
                gpu,
                "more GPUs, engine.optimizer_offload, a smaller data.max_token_len_per_gpu",
            )
        )


def _memory_facts(needed: memory.Estimate, shape: Shape, gpu: float, found: Findings) -> None:
    found.fact("model", f"{shape.parameters / 1e9:.2f} B parameters, {shape.positions} positions")
    found.fact(
        "GPU memory",
        f"update {needed.update / GIB:.0f}, log-prob pass {needed.log_prob / GIB:.0f}, rollout "
        f"{needed.rollout / GIB:.0f} of {gpu / GIB:.0f} GiB (estimated)",
    )
    found.fact(
        "of the update",
        f"weights {needed.weights / GIB:.1f}, gradients {needed.gradients / GIB:.1f}, optimizer "
        f"{needed.optimizer / GIB:.1f}, gathered {needed.gathered / GIB:.1f}, activations "
        f"{needed.activations / GIB:.1f}, logits {needed.logits / GIB:.1f} GiB",
    )
    found.fact(
        "KV cache",
        f"{max(0.0, needed.cache) / GIB:.0f} GiB a GPU, {max(0.0, needed.sequences):.0f} sequences "
        "of full length a replica",
    )


def _too_much(phase: str, needed: float, gpu: float, remedy: str) -> str:
    return (
        f"GPU memory: {phase} needs about {needed / GIB:.0f} of {gpu / GIB:.0f} GiB: {remedy} "
        "(an estimate: GPU_MEMORY_GIB names the memory of other GPUs)"
    )
