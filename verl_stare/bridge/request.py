"""What a user's verl configuration asks of STARE."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from verl_stare.config import PREFIX, ConfigError, StareConfig

logger = logging.getLogger("verl_stare")

NAME = "stare"


def settings(config: DictConfig) -> StareConfig | None:
    """The settings of STARE if `config` (verl's whole configuration) asks for it, else None.

    Raises:
        ConfigError: a setting is bad, or the run is of a kind that STARE cannot act in.
    """
    given = OmegaConf.select(config, PREFIX)
    written: Any = given
    if OmegaConf.is_config(given):
        written = OmegaConf.to_container(given, resolve=True)
    if written is None:
        written = {}
    if not isinstance(written, Mapping):
        raise ConfigError(f"{PREFIX}={written!r}: must be a mapping of settings")
    stare = StareConfig.from_mapping(written)

    estimator = OmegaConf.select(config, "algorithm.adv_estimator")
    if estimator != NAME:
        if str(estimator).lower() == NAME:
            raise ConfigError(f"algorithm.adv_estimator={estimator}: allowed: {NAME}")
        if written:
            logger.warning(
                "%s is set, but algorithm.adv_estimator is not %s: STARE is off", PREFIX, NAME
            )
        return None
    _check_run(config)
    return stare


def _check_run(config: DictConfig) -> None:
    # A configuration without the key (verl's legacy trainer) is as unsuitable as a False one.
    use_v1 = OmegaConf.select(config, "trainer.use_v1")
    if use_v1 is not True:
        raise ConfigError(
            f"trainer.use_v1={use_v1}: adv_estimator={NAME} needs verl's V1 trainer, allowed: True"
        )
    bypass = "algorithm.rollout_correction.bypass_mode"
    if OmegaConf.select(config, bypass):
        raise ConfigError(
            f"{bypass}=True: it skips the pass that computes the entropy, which adv_estimator="
            f"{NAME} gates on, allowed: False"
        )
