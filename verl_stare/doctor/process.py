"""What holds inside one process: the one that asks, or a Ray worker.

`verl` is imported first and alone, so that the plugin is active only if verl itself has loaded it.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from verl_stare.doctor.report import Line, describe, fail, guarded, ok

GROUP = "verl.plugins"
PLUGIN = "verl_stare.bridge.plugin"
SWITCH = "VERL_USE_EXTERNAL_PLUGINS"


def seams_found() -> Iterator[Line]:
    """Each symbol of verl that STARE rests on."""
    from verl_stare.bridge import seams

    for name in dict.fromkeys(seam.module for seam in seams.SEAMS):
        try:
            importlib.import_module(name)
        except Exception as error:
            yield fail(f"{name} cannot be imported: {describe(error)}")
        # A module stays loaded when the package around it fails: its own gaps may be the reason.
        module = sys.modules.get(name)
        if module is None:
            continue
        for seam in seams.SEAMS:
            if seam.module == name:
                problem = seams.problem_of(module, seam.name, seam.parameters)
                verdict = ok(f"{name}.{seam.name}") if problem is None else fail(problem)
                yield Line(verdict.status, f"{verdict.text}: {seam.use}")


def plugin_active() -> Iterator[Line]:
    """Whether verl has loaded the plugin, and what the plugin puts in place is there."""
    import verl as verl

    loaded = _loaded()
    yield loaded
    if not loaded.failed:
        for check in (_trainers, _names, _functions, _other_parts):
            yield from guarded(check)


def _loaded() -> Line:
    entry = next((e for e in metadata.entry_points(group=GROUP) if e.value == PLUGIN), None)
    if PLUGIN in sys.modules:
        how = f"entry point {entry.name}" if entry else "not by an entry point"
        return ok(f"verl has loaded {PLUGIN} ({how})")
    if entry is None:
        return fail(f"no entry point {PLUGIN} in group {GROUP}: install the package with pip")
    # As verl reads it.
    switch = os.environ.get(SWITCH, "auto").strip().lower()
    if switch != "auto" and entry.name not in {name.strip() for name in switch.split(",")}:
        return fail(f"{SWITCH}={os.environ[SWITCH]} switches the plugin off: allow {entry.name}")
    try:
        # verl hides in its debug log why a plugin fails.
        entry.load()
    except Exception as error:
        return fail(f"{PLUGIN} fails to load: {describe(error)}")
    return fail(f"verl has not loaded {PLUGIN}, which loads without an error")


def _trainers() -> Iterator[Line]:
    from verl.trainer.ppo.v1 import trainer_base

    from verl_stare.bridge.trainer import StareMixin

    bare: list[str] = []
    for mode in trainer_base.TRAINER_REGISTRY:
        if not issubclass(trainer_base.get_trainer_cls(mode), StareMixin):
            bare.append(mode)
    modes = ", ".join(trainer_base.TRAINER_REGISTRY)
    if not modes:
        yield fail("verl has registered no trainer")
    elif bare:
        yield fail(f"verl's trainers without STARE's part: {', '.join(bare)}")
    else:
        yield ok(f"verl's trainers have STARE's part: {modes}")


def _names() -> Iterator[Line]:
    from verl.trainer.ppo import core_algos

    from verl_stare.bridge.request import NAME

    for what, find in (
        ("advantage estimator", core_algos.get_adv_estimator_fn),
        ("policy loss", core_algos.get_policy_loss_fn),
    ):
        try:
            ours = _is_ours(find(NAME))
        except ValueError:
            yield fail(f"{what} {NAME} is not registered")
            continue
        yield ok(f"{what} {NAME}") if ours else fail(f"{what} {NAME} is another package's")


def _functions() -> Iterator[Line]:
    from verl_stare.bridge import seams

    for module, name in (
        (seams.CONFIG, "validate_config"),
        (seams.PPO_UTILS, "need_critic"),
        (seams.TRAINER_BASE, "compute_advantage_for_multi_trajectories"),
        (seams.LOSSES, "ppo_loss"),
    ):
        if _is_ours(getattr(importlib.import_module(module), name)):
            yield ok(f"{module}.{name} is extended")
        else:
            yield fail(f"{module}.{name} is verl's own: the plugin has not extended it")


def _is_ours(function: Any) -> bool:
    """Whether this package defines it, or something that it wraps."""
    while function is not None:
        # `__module__` is the wrapped function's.
        if getattr(function, "__globals__", {}).get("__name__", "").startswith("verl_stare."):
            return True
        function = getattr(function, "__wrapped__", None)
    return False


def _other_parts() -> Iterator[Line]:
    """What was reported so far of parts that the seams above do not cover."""
    from verl_stare.bridge import seams

    for part, message in seams.problems():
        if part != seams.STARE:
            yield fail(message)
