"""Composing a configuration as verl's own commands do, and saying in one line why it fails."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from verl_stare.preflight.findings import PreflightError, one_line

# The configuration of each of verl's commands.
CONFIG_NAMES = {"rl": "ppo_trainer", "sft": "sft_trainer_engine"}


@dataclass(frozen=True)
class Composed:
    """A configuration and where it comes from.

    Attributes:
        kind: `rl` (verl.trainer.main_ppo) or `sft` (verl.trainer.sft_trainer).
        config: verl's whole configuration.
        base: the same without overrides.
        choices: config group -> option, as `+stare=long_cot`.
        overrides: as given.
    """

    kind: str
    config: Any
    base: Any
    choices: dict[str, str]
    overrides: tuple[str, ...]


def compose(kind: str, overrides: Sequence[str]) -> Composed:
    """Compose verl's configuration.

    Args:
        kind: a key of CONFIG_NAMES.
        overrides: Hydra's, as on a training command.

    Raises:
        PreflightError: Hydra refuses an override, or a value is missing.
    """
    import hydra
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    name = CONFIG_NAMES[kind]
    GlobalHydra.instance().clear()
    with hydra.initialize_config_module("verl.trainer.config", version_base=None):
        base = hydra.compose(name)
        try:
            whole = hydra.compose(name, overrides=list(overrides), return_hydra_config=True)
        # Hydra raises plain exceptions of several kinds for what users write.
        except Exception as error:
            raise PreflightError(_explained(error)) from error
    choices = {
        group: option
        for group, option in whole.hydra.runtime.choices.items()
        if not group.startswith("hydra/") and isinstance(option, str)
    }
    OmegaConf.set_struct(whole, False)
    del whole["hydra"]
    try:
        OmegaConf.to_container(whole, resolve=True)
    except OmegaConfBaseException as error:
        raise PreflightError(one_line(str(error).splitlines()[0])) from error
    OmegaConf.set_struct(whole, True)
    return Composed(kind, whole, base, choices, tuple(overrides))


def _explained(error: Exception) -> str:
    text = one_line(error)
    absent = re.search(r"Could not override '([^']+)'", text)
    if absent is None:
        return text
    key = absent.group(1)
    if key.startswith("algorithm.stare."):
        return _unknown_setting(key)
    return f"{key}: unknown key (if verl is to have it nevertheless, write +{key}=...)"


def _unknown_setting(key: str) -> str:
    """STARE's settings are new to verl, so a known one may be missing as well."""
    from dataclasses import fields
    from difflib import get_close_matches

    from verl_stare.config import StareConfig

    known = [field.name for field in fields(StareConfig)]
    name = key.removeprefix("algorithm.stare.").split(".")[0]
    if name in known:
        return f"{key}: not in this preset, so it takes a plus sign: +{key}=..."
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{key}: unknown key{hint} (known: {', '.join(known)})"
