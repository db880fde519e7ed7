"""All checks of a training command, in the order in which they make sense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from verl_stare.preflight import (
    batch,
    essentials,
    files,
    keys,
    machine,
    model,
    validate,
)
from verl_stare.preflight.compose import Composed, compose
from verl_stare.preflight.findings import Findings, PreflightError, one_line


@dataclass(frozen=True)
class Options:
    """How a command would be run.

    Attributes:
        kind: `rl` or `sft`.
        dry_run: only checked, so the GPUs need not be here.
        ray_address: RAY_ADDRESS; empty for a machine by itself.
        gpu_memory: bytes of a GPU; None for those of this machine, or else 80 GiB.
        ranks: of supervised training, whose configuration does not name them.
    """

    kind: str = "rl"
    dry_run: bool = False
    ray_address: str = ""
    gpu_memory: float | None = None
    ranks: int = 1


def run(overrides: Sequence[str], options: Options) -> Findings:
    """Check the command with these Hydra overrides."""
    found = Findings()
    try:
        composed = compose(options.kind, overrides)
        keys.check(composed, found)
        if options.kind == "rl":
            _check_rl(composed, options, found)
        else:
            _check_sft(composed, options, found)
    except PreflightError as error:
        found.problem(str(error))
    return found


def _check_rl(composed: Composed, options: Options, found: Findings) -> None:
    config = composed.config
    on_cpu = config.trainer.device == "cpu"
    batch.check_ranks(config, found)
    batch.check_method(config, found)
    required = (config.data.prompt_key, *files.PROMPTS)
    if config.actor_rollout_ref.rollout.multi_turn.enable:
        required = (*required, "agent_name")
    train = files.check(found, "data.train_files", config.data.train_files, required)
    val = files.check(
        found, "data.val_files", config.data.val_files, required, optional=(files.SAMPLES,)
    )
    _check_samples(train, found)
    shape, tokenizer = _read_model(
        config.actor_rollout_ref.model.path,
        "actor_rollout_ref.model.path",
        config.actor_rollout_ref.model.override_config,
        found,
    )
    if shape is not None:
        batch.check_lengths(config, shape, found)
    if tokenizer is not None:
        longest = config.data.max_prompt_length
        files.check_prompts(found, tokenizer, [*train, *val], config.data.prompt_key, longest)
    if shape is not None:
        validate.check_rl(config, found)
    validate.check_reward(config, found)
    validate.check_tools(config, found)
    if not on_cpu:
        _check_machine(config, options, found)
    essentials.describe_run(composed, train, val, found)
    if shape is not None and not on_cpu and config.trainer.n_gpus_per_node > 0:
        essentials.estimate_rl(config, shape, _gpu(options), found)


def _check_samples(train: list[Any], found: Findings) -> None:
    import pyarrow.parquet as pq

    for path in train:
        if files.SAMPLES in pq.read_schema(path).names:
            found.problem(
                f"data.train_files={path}: has {files.SAMPLES}, so it is for validation, and verl "
                "would take that for rollout.n"
            )


def _check_sft(composed: Composed, options: Options, found: Findings) -> None:
    config = composed.config
    on_cpu = config.trainer.device == "cpu"
    required = (config.data.messages_key,)
    files.check(found, "data.train_files", config.data.train_files, required)
    if config.data.val_files is not None:
        files.check(found, "data.val_files", config.data.val_files, required)
    if config.data.train_batch_size % options.ranks:
        found.problem(
            f"data.train_batch_size={config.data.train_batch_size}: does not divide by "
            f"{options.ranks} ranks"
        )
    shape, _ = _read_model(config.model.path, "model.path", config.model.override_config, found)
    if shape is not None:
        if config.data.max_length > shape.positions:
            found.problem(
                f"data.max_length={config.data.max_length}: more than the model's "
                f"{shape.positions} positions"
            )
        if (
            config.data.max_token_len_per_gpu < config.data.max_length
            and config.data.use_dynamic_bsz
        ):
            found.problem(
                f"data.max_token_len_per_gpu={config.data.max_token_len_per_gpu}: less than "
                f"data.max_length={config.data.max_length}"
            )
        validate.check_sft(config, found)
        if not on_cpu:
            essentials.estimate_sft(config, shape, options.ranks, _gpu(options), found)
    if not on_cpu and not options.dry_run:
        machine.check_gpus(config, found)
    found.fact(
        "run",
        f"{config.trainer.total_epochs} epochs in batches of {config.data.train_batch_size}, "
        f"into {config.trainer.default_local_dir}",
    )


def _read_model(
    path: str, key: str, overridden: Any, found: Findings
) -> tuple[model.Shape | None, Any]:
    """The model's shape and its tokenizer; None for what cannot be read, which is reported."""
    from omegaconf import OmegaConf
    from transformers import AutoTokenizer

    values: Any = OmegaConf.to_container(overridden, resolve=True) if overridden else {}
    try:
        shape = model.read(path, key, values)
    except PreflightError as error:
        found.problem(str(error))
        return None, None
    try:
        return shape, AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        found.problem(f"{key}={path}: its tokenizer cannot be read: {one_line(error)}")
        return shape, None


def _check_machine(config: Any, options: Options, found: Findings) -> None:
    if options.ray_address:
        machine.check_cluster(options.ray_address, config, found, resources=not options.dry_run)
    elif not options.dry_run:
        machine.check_gpus(config, found)


def _gpu(options: Options) -> float:
    return options.gpu_memory or machine.gpu_memory() or machine.USUAL
