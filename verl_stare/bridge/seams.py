"""The places of verl that are extended or used, and whether verl has them as expected.

A place that is not as expected is reported at once, naming it and verl's version, and whoever asked
for STARE is stopped. In a run that did not ask, all of them pass every call on.
"""

from __future__ import annotations

import importlib
import inspect
import logging
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import verl
from packaging.specifiers import SpecifierSet

from verl_stare import __version__
from verl_stare.config import ConfigError

logger = logging.getLogger("verl_stare")

SUPPORTED_VERL = SpecifierSet(">=0.9.1,<0.10", prereleases=True)
STARE = "STARE"

CONFIG = "verl.utils.config"
PPO_UTILS = "verl.trainer.ppo.utils"
CORE_ALGOS = "verl.trainer.ppo.core_algos"
TRAINER_BASE = "verl.trainer.ppo.v1.trainer_base"
LOSSES = "verl.workers.utils.losses"
TOOL_PARSER = "verl.experimental.agent_loop.tool_parser"
TOOL_LOOP = "verl.experimental.agent_loop.tool_agent_loop"
TOOLS = "its agent loop for tools"


@dataclass(frozen=True)
class Seam:
    """A symbol of verl that STARE rests on.

    Attributes:
        module, name: where it is.
        parameters: its first ones, in order.
        use: what for.
        part: of this package that rests on it.
    """

    module: str
    name: str
    parameters: tuple[str, ...]
    use: str
    part: str = STARE


_SELF = ("self",)
SEAMS = (
    Seam(CONFIG, "validate_config", ("config",), "refuse a bad configuration before Ray starts"),
    Seam(PPO_UTILS, "need_critic", ("config",), "give base_estimator=gae its critic"),
    Seam(CORE_ALGOS, "register_adv_est", ("name_or_enum",), "make adv_estimator=stare known"),
    Seam(CORE_ALGOS, "register_policy_loss", ("name",), "make loss_mode=stare known"),
    Seam(CORE_ALGOS, "get_policy_loss_fn", ("name",), "verl's clipped surrogate"),
    Seam(TRAINER_BASE, "get_trainer_cls", ("name",), "put the mixin on every trainer"),
    Seam(TRAINER_BASE, "PPOTrainer.__init__", (*_SELF, "config"), "read the settings"),
    Seam(
        TRAINER_BASE,
        "PPOTrainer._compute_advantage",
        (*_SELF, "batch", "metrics"),
        "decide once for the batch",
    ),
    Seam(
        TRAINER_BASE,
        "compute_advantage_for_multi_trajectories",
        ("data", "batch_keys", "adv_estimator"),
        "reweight the advantages before verl stores them",
    ),
    Seam(TRAINER_BASE, "tq.kv_batch_get", ("keys",), "read the entropy"),
    Seam(
        TRAINER_BASE,
        "PPOTrainer._update_actor",
        (*_SELF, "batch", "metrics"),
        "hand the decision to the actor",
    ),
    Seam(TRAINER_BASE, "PPOTrainer._save_checkpoint", _SELF, "save the controller's state"),
    Seam(TRAINER_BASE, "PPOTrainer._load_checkpoint", _SELF, "restore the controller's state"),
    Seam(
        LOSSES,
        "ppo_loss",
        ("config", "model_output", "data"),
        "hand the decision to loss_mode=stare",
    ),
    Seam(
        TRAINER_BASE,
        "PPOTrainer._compute_metrics",
        (*_SELF, "batch", "metrics", "timing_raw"),
        "log what the tools' calls came to",
        TOOLS,
    ),
    Seam(
        TOOL_LOOP,
        "ToolAgentLoop.run",
        (*_SELF, "sampling_params", "priority"),
        "release a tool's instance with its trajectory",
        TOOLS,
    ),
    Seam(
        TOOL_LOOP,
        "ToolAgentLoop._call_tool",
        (*_SELF, "tool_call", "tools_kwargs", "agent_data"),
        "answer every call",
        TOOLS,
    ),
    Seam(
        TOOL_LOOP,
        "ToolAgentLoop._handle_generating_state",
        (*_SELF, "agent_data", "sampling_params", "ignore_termination"),
        "count the calls that a limit of turns leaves unmade",
        TOOLS,
    ),
)

_problems: list[tuple[str, str]] = []


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


def problem_of(module: ModuleType, name: str, parameters: tuple[str, ...] = ()) -> str | None:
    """What is wrong with `module.name`: missing, or not taking `parameters` first; None if fine."""
    target: Any = module
    for attribute in name.split("."):
        target = getattr(target, attribute, None)
    if target is None:
        return f"{module.__name__}.{name} is missing"
    if callable(target):
        actual = tuple(inspect.signature(target).parameters)
        if actual[: len(parameters)] != parameters:
            return f"{module.__name__}.{name} takes {actual}, not {parameters}"
    return None


def has(module: ModuleType, name: str, parameters: tuple[str, ...] = (), part: str = STARE) -> bool:
    """Whether `module.name` exists and, if callable, takes `parameters`; reports it otherwise."""
    problem = problem_of(module, name, parameters)
    if problem is not None:
        report(problem, part)
    return problem is None


def intact(module: ModuleType, part: str = STARE) -> bool:
    """Whether all of a module's seams are as expected by a part; reports those that are not."""
    mine = [s for s in SEAMS if s.module == module.__name__ and s.part == part]
    found = [has(module, s.name, s.parameters, s.part) for s in mine]
    return all(found)


def problems() -> list[tuple[str, str]]:
    """What was reported so far: the part of this package, and the message."""
    return list(_problems)


def check() -> None:
    """Import every module that is extended.

    Raises:
        ConfigError: some seam is not as expected.
    """
    for name in dict.fromkeys(seam.module for seam in SEAMS if seam.part == STARE):
        try:
            importlib.import_module(name)
        except ImportError as error:
            report(f"{name} cannot be imported ({error})")
    messages = [message for part, message in _problems if part == STARE]
    if messages:
        raise ConfigError("; ".join(messages))
