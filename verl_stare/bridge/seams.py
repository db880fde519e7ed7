"""The four places where verl is extended, each checked when its module is imported.

| verl | use |
|---|---|
| `core_algos.register_adv_est` | makes `stare` a known name; stops a trainer without the mixin |
| `trainer_base.get_trainer_cls` | returns the registered trainer with the mixin |
| `trainer_base.PPOTrainer._compute_advantage` | what the mixin extends |
| `utils.config.validate_config` | refuses a bad configuration before Ray starts |

A place that is not as expected is reported at once, naming it and verl's version, and whoever asked
for STARE is stopped. In a run that did not ask, the mixin passes every call on.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
from collections.abc import Callable
from types import ModuleType
from typing import Any

import verl
import wrapt
from packaging.specifiers import SpecifierSet

from verl_stare import __version__
from verl_stare.bridge import request
from verl_stare.config import ConfigError

logger = logging.getLogger("verl_stare")

SUPPORTED_VERL = SpecifierSet(">=0.9.1,<0.10", prereleases=True)
_CORE_ALGOS = "verl.trainer.ppo.core_algos"
_TRAINER_BASE = "verl.trainer.ppo.v1.trainer_base"
_CONFIG = "verl.utils.config"

STARE = "STARE"
_problems: list[tuple[str, str]] = []


def install() -> None:
    """Register the hooks. Loads nothing of verl that is not loaded yet."""
    if verl.__version__ not in SUPPORTED_VERL:
        report(f"this version is not supported (supported: {SUPPORTED_VERL})")
    wrapt.register_post_import_hook(_refuse_bad_config, _CONFIG)
    wrapt.register_post_import_hook(_register_estimator, _CORE_ALGOS)
    wrapt.register_post_import_hook(_extend_trainers, _TRAINER_BASE)


def report(problem: str, part: str = STARE) -> None:
    """Say loudly that verl is not as expected, and remember it for `check`.

    Args:
        problem: what is wrong, naming the symbol.
        part: of this package that cannot do its work for it.
    """
    message = f"verl_stare {__version__}: {part} cannot act in verl {verl.__version__}: {problem}"
    if (part, message) not in _problems:
        _problems.append((part, message))
        logger.error(message)


def check() -> None:
    """Import every module that is extended.

    Raises:
        ConfigError: some seam is not as expected.
    """
    for name in (_CORE_ALGOS, _TRAINER_BASE):
        try:
            importlib.import_module(name)
        except ImportError as error:
            report(f"{name} cannot be imported ({error})")
    messages = [message for part, message in _problems if part == STARE]
    if messages:
        raise ConfigError("; ".join(messages))


def has(module: ModuleType, name: str, parameters: tuple[str, ...] = (), part: str = STARE) -> bool:
    """Whether `module.name` exists and, if callable, takes `parameters`; reports it otherwise."""
    target: Any = module
    for attribute in name.split("."):
        target = getattr(target, attribute, None)
    if target is None:
        report(f"{module.__name__}.{name} is missing", part)
        return False
    if not callable(target):
        return True
    actual = tuple(inspect.signature(target).parameters)
    if actual[: len(parameters)] != parameters:
        report(f"{module.__name__}.{name} takes {actual}, not {parameters}", part)
        return False
    return True


def _refuse_bad_config(module: ModuleType) -> None:
    if not has(module, "validate_config", ("config",)):
        return

    def validate_config(
        wrapped: Callable[..., Any], _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        config = args[0] if args else kwargs["config"]
        try:
            if request.settings(config) is not None:
                check()
        except ConfigError as error:
            # SystemExit is one line on stderr and exit code 1; Hydra would print a traceback.
            raise SystemExit(f"verl_stare: {error}") from None
        return wrapped(*args, **kwargs)

    wrapt.wrap_function_wrapper(module, "validate_config", validate_config)


def _register_estimator(module: ModuleType) -> None:
    if not has(module, "register_adv_est", ("name_or_enum",)):
        return

    def stare(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"adv_estimator={request.NAME} reached verl's own compute_advantage: this trainer is "
            "not one of verl's V1 trainers (trainer.use_v1=True), so STARE cannot act in it"
        )

    module.register_adv_est(request.NAME)(stare)


def _extend_trainers(module: ModuleType) -> None:
    parts = [
        has(module, "get_trainer_cls", ("name",)),
        has(module, "PPOTrainer.__init__", ("self", "config")),
        has(module, "PPOTrainer._compute_advantage", ("self", "batch", "metrics")),
        has(module, "tq.kv_batch_get", ("keys",)),
        has(module, "tq.kv_batch_put", ("keys",)),
    ]
    if not all(parts):
        return

    @functools.cache
    def extended(base: type) -> type:
        from verl_stare.bridge.trainer import StareMixin

        return type(f"Stare{base.__name__}", (StareMixin, base), {})

    def get_trainer_cls(
        wrapped: Callable[..., type], _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> type:
        return extended(wrapped(*args, **kwargs))

    wrapt.wrap_function_wrapper(module, "get_trainer_cls", get_trainer_cls)
