"""Extending verl's modules, each at the moment it is imported and only if its seams are intact."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import ray
import verl
import wrapt

from verl_stare.bridge import request, seams
from verl_stare.config import ConfigError


def install() -> None:
    """Register the hooks. Loads nothing of verl that is not loaded yet."""
    if verl.__version__ not in seams.SUPPORTED_VERL:
        seams.report(f"this version is not supported (supported: {seams.SUPPORTED_VERL})")
    for name, extend in (
        (seams.CONFIG, _refuse_bad_config),
        (seams.PPO_UTILS, _give_the_base_its_critic),
        (seams.CORE_ALGOS, _register_names),
        (seams.TRAINER_BASE, _extend_trainers),
        (seams.LOSSES, _hand_over_the_decision),
    ):
        wrapt.register_post_import_hook(_if_intact(extend), name)
    wrapt.register_post_import_hook(_if_intact(_register_loop, seams.TOOLS), seams.TOOL_LOOP)


def _if_intact(
    extend: Callable[[ModuleType], None], part: str = seams.STARE
) -> Callable[[ModuleType], None]:
    def hook(module: ModuleType) -> None:
        if seams.intact(module, part):
            extend(module)

    return hook


def _replace(module: ModuleType, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
    """Put a function in place of `module.name` that is still pickled and shown under that name."""
    original = getattr(module, name)
    replacement = functools.wraps(original)(make(original))
    replacement.__module__ = module.__name__
    setattr(module, name, replacement)


def _refuse_bad_config(module: ModuleType) -> None:
    def make(original: Any) -> Callable[..., Any]:
        def validate_config(config: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                if request.read(config) is not None:
                    seams.check()
            except ConfigError as error:
                if ray.is_initialized():  # inside an actor an exit would hide the message
                    raise
                # SystemExit is one line on stderr and exit code 1; Hydra would print a traceback.
                raise SystemExit(f"verl_stare: {error}") from None
            return original(config, *args, **kwargs)

        return validate_config

    _replace(module, "validate_config", make)


def _give_the_base_its_critic(module: ModuleType) -> None:
    def make(original: Any) -> Callable[..., Any]:
        def need_critic(config: Any) -> bool:
            base = request.base_estimator(config)
            if base is None:
                return original(config)
            with request.estimator(config, base):
                return original(config)

        return need_critic

    _replace(module, "need_critic", make)


def _register_names(module: Any) -> None:
    from verl_stare.bridge.loss import stare_loss

    def stare(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"adv_estimator={request.NAME} reached verl's own compute_advantage: this trainer is "
            "not one of verl's V1 trainers (trainer.use_v1=True), so STARE cannot act in it"
        )

    module.register_adv_est(request.NAME)(stare)
    module.register_policy_loss(request.NAME)(stare_loss)


def _extend_trainers(module: ModuleType) -> None:
    from verl_stare.bridge import advantages

    @functools.cache
    def extended(base: type) -> type:
        from verl_stare.bridge.trainer import StareMixin

        if issubclass(base, StareMixin):  # derived from one that was extended before
            return base
        return type(f"Stare{base.__name__}", (StareMixin, base), {})

    _replace(module, "get_trainer_cls", lambda original: lambda name: extended(original(name)))
    _replace(module, "compute_advantage_for_multi_trajectories", advantages.followed_up)


def _register_loop(module: ModuleType) -> None:
    import verl_stare.bridge.agent_loop  # noqa: F401 (registers itself)


def _hand_over_the_decision(module: ModuleType) -> None:
    from verl_stare.bridge import loss

    _replace(module, "ppo_loss", loss.with_decision)
