"""What a user's verl configuration asks of STARE."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from verl_stare.config import PREFIX, ConfigError, StareConfig

logger = logging.getLogger("verl_stare")

NAME = "stare"
ESTIMATOR = "algorithm.adv_estimator"
LOSS_MODE = "actor_rollout_ref.actor.policy_loss.loss_mode"
BYPASS = "algorithm.rollout_correction.bypass_mode"

# verl's estimators that need what its V1 trainer does not hand to them.
CANNOT_BE_BASE = {
    "remax": "verl's V1 trainer makes no greedy rollouts (reward_baselines)",
    "gdpo": "verl's V1 trainer does not pass on the components of the reward",
    "optimal_token_baseline": "verl's V1 trainer does not pass on sum_pi_squared",
    "tir_optimal_token_baseline": "verl's V1 trainer does not pass on sum_pi_squared",
    NAME: "it is not a base of itself",
}


@dataclass(frozen=True)
class Request:
    """STARE as asked for by one run.

    Attributes:
        settings: under `algorithm.stare`.
        in_advantages: `adv_estimator=stare`: verl computes the base estimator in its place.
        in_actor: `loss_mode=stare`: the weights are taken and applied in the actor. With both, they
            are applied once, there.
        sampled_entropy: bypass mode, which computes no entropy: the gate is on the mean sampled
            surprisal, an estimate of it without bias.
    """

    settings: StareConfig
    in_advantages: bool
    in_actor: bool
    sampled_entropy: bool

    def describe(self) -> str:
        """One line for the log."""
        toggles = [f"{ESTIMATOR}={NAME} over {self.settings.base_estimator}"] * self.in_advantages
        toggles += [f"loss_mode={NAME}"] * self.in_actor
        where = "the actor's loss" if self.in_actor else "the advantages"
        gate = "mean sampled surprisal (bypass mode)" if self.sampled_entropy else "mean entropy"
        settings = ", ".join(f"{key}={value}" for key, value in self.effective().items())
        return f"{' and '.join(toggles)}; weights in {where}, gate on {gate}; {settings}"

    def effective(self) -> dict[str, Any]:
        """The settings that have an effect in this run, defaults included."""
        settings = self.settings.to_mapping()
        if not self.in_advantages:
            del settings["base_estimator"]
        return settings


def read(config: DictConfig) -> Request | None:
    """What `config` (verl's whole configuration) asks for; None if it does not ask for STARE.

    Raises:
        ConfigError: a setting is bad, or the run is of a kind that STARE cannot act in.
    """
    written = _written(config)
    settings = StareConfig.from_mapping(written)
    in_advantages = _is_named(config, ESTIMATOR)
    in_actor = _is_named(config, LOSS_MODE)
    if not in_advantages and not in_actor:
        if written:
            logger.warning(
                "%s is set, but neither %s nor %s is %s: STARE is off",
                PREFIX,
                ESTIMATOR,
                LOSS_MODE,
                NAME,
            )
        return None
    request = Request(
        settings, in_advantages, in_actor, bool(OmegaConf.select(config, BYPASS, default=False))
    )
    _check_run(config, request, written)
    return request


def base_estimator(config: DictConfig) -> str | None:
    """The estimator that stands in for `stare`, None if that was not asked for; checks nothing."""
    if OmegaConf.select(config, ESTIMATOR) != NAME:
        return None
    default = StareConfig().base_estimator
    settings = OmegaConf.select(config, PREFIX)
    return (
        str(settings.get("base_estimator") or default)
        if isinstance(settings, DictConfig)
        else default
    )


@contextmanager
def estimator(config: DictConfig, name: str) -> Iterator[None]:
    """Let verl act as if estimator `name` were configured, multi-trajectory handling included.

    The configuration is put back at once, so that trackers and checkpoints show what was asked for.
    """
    asked = config.algorithm.adv_estimator
    config.algorithm.adv_estimator = name
    try:
        yield
    finally:
        config.algorithm.adv_estimator = asked


def _written(config: DictConfig) -> Mapping[str, Any]:
    given: Any = OmegaConf.select(config, PREFIX)
    if OmegaConf.is_config(given):
        given = OmegaConf.to_container(given, resolve=True)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{PREFIX}={given!r}: must be a mapping of settings")
    return given


def _is_named(config: DictConfig, key: str) -> bool:
    value = OmegaConf.select(config, key)
    if value != NAME and str(value).lower() == NAME:
        raise ConfigError(f"{key}={value}: allowed: {NAME}")
    return value == NAME


def _check_run(config: DictConfig, request: Request, written: Mapping[str, Any]) -> None:
    toggle = f"adv_estimator={NAME}" if request.in_advantages else f"loss_mode={NAME}"
    # A configuration without the key (verl's legacy trainer) is as unsuitable as a False one.
    use_v1 = OmegaConf.select(config, "trainer.use_v1")
    if use_v1 is not True:
        raise ConfigError(
            f"trainer.use_v1={use_v1}: {toggle} needs verl's V1 trainer, allowed: True"
        )
    distillation = "distillation.distillation_loss.use_task_rewards"
    if OmegaConf.select(config, "distillation.enabled") and not OmegaConf.select(
        config, distillation
    ):
        raise ConfigError(f"{distillation}=False: no advantage is used then, allowed: True")
    actual = str(OmegaConf.select(config, ESTIMATOR))
    settings = request.settings
    base = settings.base_estimator if request.in_advantages else actual
    if base == "gae" and OmegaConf.select(config, "algorithm.use_pf_ppo"):
        raise ConfigError(
            "algorithm.use_pf_ppo=True: it resamples rows after their advantages are computed, so "
            "that other data of theirs no longer fit, allowed: False"
        )
    if settings.scope == "micro_batch" and not request.in_actor:
        raise ConfigError(
            f"{PREFIX}.scope=micro_batch: the actor alone knows its micro-batches, "
            f"allowed with {LOSS_MODE}={NAME}"
        )
    if not request.in_advantages:
        if "base_estimator" in written:
            raise ConfigError(
                f"{PREFIX}.base_estimator={settings.base_estimator}: has no effect with "
                f"{ESTIMATOR}={actual}, allowed: {ESTIMATOR}={NAME}"
            )
        if actual in CANNOT_BE_BASE:
            raise ConfigError(f"{ESTIMATOR}={actual}: {CANNOT_BE_BASE[actual]}")
        return
    _check_base(config, base)


def _check_base(config: DictConfig, base: str) -> None:
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

    known = sorted(set(ADV_ESTIMATOR_REGISTRY) - set(CANNOT_BE_BASE))
    key = f"{PREFIX}.base_estimator={base}"
    if base in CANNOT_BE_BASE:
        raise ConfigError(f"{key}: {CANNOT_BE_BASE[base]} (allowed: {', '.join(known)})")
    if base not in known:
        raise ConfigError(f"{key}: not registered in verl (known: {', '.join(known)})")
    if base == "gae" and OmegaConf.select(config, "critic.enable") is False:
        raise ConfigError(f"critic.enable=False: {key} needs the critic, allowed: True or null")
