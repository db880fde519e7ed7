"""The controller's state beside verl's checkpoint: `global_step_<n>/verl_stare.json`."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
from pathlib import Path
from typing import Any

from verl_stare.algo import ControllerState
from verl_stare.config import StareConfig
from verl_stare.files import replace_text

logger = logging.getLogger("verl_stare")

FILE = "verl_stare.json"
FORMAT = 1


class StateError(RuntimeError):
    """A state file that cannot be used; the message names it."""


def save(folder: Path, step: int, settings: StareConfig, state: ControllerState) -> None:
    """Write the state of `step` into its checkpoint's folder, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "format": FORMAT,
        "step": step,
        "state": dataclasses.asdict(state),
        "settings": dataclasses.asdict(settings),
    }
    replace_text(folder / FILE, json.dumps(content, indent=2) + "\n")


def load(folder: Path, step: int, settings: StareConfig) -> ControllerState:
    """The state to go on from after `step`.

    A checkpoint without the file (a run without STARE) starts afresh, with a warning. Settings that
    have changed since are reported; the schedule goes on from the saved W and M, within the bounds
    of now, and without a schedule W and M are those of now.

    Raises:
        StateError: the file is damaged or of another step.
    """
    path = folder / FILE
    initial = ControllerState.initial(settings)
    if not path.exists():
        logger.warning("%s is missing: STARE starts afresh from %s", path, initial)
        return initial
    saved, before = _read(path, step)
    now = dataclasses.asdict(settings)
    changed = [
        f"{key}: {before.get(key)!r} -> {now[key]!r}" for key in now if before.get(key) != now[key]
    ]
    if changed:
        logger.warning("settings of STARE changed since %s: %s", path, "; ".join(changed))
    if not (settings.adaptive and before.get("adaptive")):
        return initial
    state = ControllerState(
        amplify=min(saved.amplify, settings.amplify_max),
        attenuate=max(saved.attenuate, settings.attenuate_min),
    )
    logger.info("STARE goes on from %s of %s", state, path)
    return state


def _read(path: Path, step: int) -> tuple[ControllerState, dict[str, Any]]:
    try:
        content = json.loads(path.read_text())
        state = ControllerState(**content["state"])
        settings = dict(content["settings"])
        values = [state.amplify, state.attenuate]
        if content["format"] != FORMAT or content["step"] != step:
            raise ValueError(f"format {content['format']} of step {content['step']}")
        if not (all(map(math.isfinite, values)) and values[0] >= 1 >= values[1] > 0):
            raise ValueError(f"{state}")
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise StateError(
            f"{path} is not the state of STARE at step {step} ({type(error).__name__}: {error}); "
            "remove it to start afresh from the configured W and M"
        ) from error
    return state, settings
