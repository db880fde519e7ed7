"""Keys that verl does not know, and keys that it only keeps for old configurations."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Iterator
from typing import Any

from verl_stare.preflight.compose import Composed
from verl_stare.preflight.findings import Findings

# Mappings that take any key.
OPEN = (
    "algorithm.stare",
    "override_config",
    "override_optimizer_config",
    "engine_kwargs",
    "reward_kwargs",
    "sampler_kwargs",
    "ray_init",
    "apply_chat_template_kwargs",
    "mm_processor_kwargs",
    "hydra",
)
# Of the presets, beside verl's own configuration.
OURS = ("stare_attenuate",)
# What verl still reads, or refuses, in favour of another key.
DEPRECATED = {
    "custom_reward_function": "reward.custom_reward_function",
    "reward_model": "reward",
    "sandbox_fusion": "reward.sandbox_fusion",
    "data.val_batch_size": "nothing (validation takes all rows at once)",
    "actor_rollout_ref.actor.ppo_micro_batch_size": "…ppo_micro_batch_size_per_gpu",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size": "…_per_gpu",
    "actor_rollout_ref.ref.log_prob_micro_batch_size": "…_per_gpu",
    "actor_rollout_ref.actor.optim.warmup_style": "…lr_scheduler_type",
    "critic.ppo_micro_batch_size": "critic.ppo_micro_batch_size_per_gpu",
    "critic.optim.warmup_style": "critic.optim.lr_scheduler_type",
    "optim.warmup_style": "optim.lr_scheduler_type",
}


def check(composed: Composed, findings: Findings) -> None:
    """Report keys that verl would not read."""
    from omegaconf import OmegaConf

    for key, parent, names in _unknown(composed.config, composed.base, ""):
        near = difflib.get_close_matches(key.rsplit(".", 1)[-1], names, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        findings.problem(f"{key}: unknown key, verl would not read it{hint} (in {parent or 'all'})")
    for key, instead in DEPRECATED.items():
        value = OmegaConf.select(composed.config, key)
        if value != OmegaConf.select(composed.base, key):
            shown = "" if OmegaConf.is_config(value) else f"={value}"
            findings.problem(f"{key}{shown}: deprecated in verl, use {instead}")
    use_v1 = OmegaConf.select(composed.config, "trainer.use_v1")
    if composed.kind == "rl" and use_v1 is not True:
        findings.problem(f"trainer.use_v1={use_v1}: verl's legacy trainer is deprecated, use True")


def _unknown(config: Any, base: Any, place: str) -> Iterator[tuple[str, str, list[str]]]:
    """Each unknown key, where it is, and what is known there."""
    from omegaconf import DictConfig

    known = [str(name) for name in base]
    known += [name for name in _fields(base.get("_target_")) if name not in known]
    for name in config:
        key = f"{place}.{name}" if place else str(name)
        if name in OPEN or key in OPEN or key in OURS:
            continue
        if name not in known:
            yield key, place, known
            continue
        # Neither a value nor an interpolation has keys of its own.
        mine = config._get_node(name)
        theirs = base._get_node(name) if name in base else None
        if isinstance(mine, DictConfig) and isinstance(theirs, DictConfig) and theirs:
            yield from _unknown(mine, theirs, key)


def _fields(target: object) -> list[str]:
    """Names of the fields of verl's dataclass `target`."""
    if not isinstance(target, str):
        return []
    module, _, name = target.rpartition(".")
    cls = getattr(importlib.import_module(module), name)
    return (
        [field.name for field in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []
    )
