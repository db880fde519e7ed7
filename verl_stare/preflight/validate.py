"""verl's own validation, which otherwise runs when the command starts, as findings."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from verl_stare.preflight.findings import Findings, one_line

# Sections that verl makes dataclasses of on its workers.
SECTIONS = ("actor_rollout_ref.rollout", "actor_rollout_ref.actor")


def check_rl(config: Any, findings: Findings) -> None:
    """Report what verl's validation, or STARE's, refuses."""
    from verl.trainer.ppo.utils import need_critic, need_reference_policy

    from verl_stare.bridge import request
    from verl_stare.config import ConfigError

    try:
        asked = request.read(config)
    except ConfigError as error:
        findings.problem(str(error))
        return
    if asked is not None:
        findings.fact("STARE", asked.describe())
    else:
        findings.fact("STARE", "off")
    with contextlib.redirect_stdout(io.StringIO()):
        from verl.utils import config as verl_config

        for section in SECTIONS:
            _attempt(findings, section, lambda at=section: _build(config, at))
        if not findings.problems:
            _attempt(
                findings,
                "configuration",
                lambda: verl_config.validate_config(
                    config, need_reference_policy(config), need_critic(config)
                ),
            )


def check_sft(config: Any, findings: Findings) -> None:
    """Report what verl's supervised trainer refuses when it builds its parts."""
    with contextlib.redirect_stdout(io.StringIO()):
        for section in ("engine", "optim", "checkpoint"):
            _attempt(findings, section, lambda at=section: _build(config, at))


def check_reward(config: Any, findings: Findings) -> None:
    """Report a reward function that is not there."""
    from omegaconf import OmegaConf
    from verl.utils.import_utils import load_module

    path = OmegaConf.select(config, "reward.custom_reward_function.path")
    name = OmegaConf.select(config, "reward.custom_reward_function.name")
    key = "reward.custom_reward_function"
    if path is None:
        return
    try:
        module = load_module(path)
    except (ImportError, OSError, RuntimeError) as error:
        findings.problem(f"{key}.path={path}: {one_line(error)}")
        return
    if not hasattr(module, str(name)):
        findings.problem(f"{key}.name={name}: {path} has no such function")


def check_tools(config: Any, findings: Findings) -> None:
    """Report a tool that verl could not build, or a sandbox that does not hold."""
    multi_turn = config.actor_rollout_ref.rollout.multi_turn
    path = multi_turn.tool_config_path
    if not multi_turn.enable or path is None:
        return
    key = "actor_rollout_ref.rollout.multi_turn.tool_config_path"
    from omegaconf import OmegaConf
    from verl.utils.config import omega_conf_to_dataclass  # noqa: F401 (the plugin is loaded)

    try:
        tools: Any = OmegaConf.load(path).tools
        made = [_tool(tool) for tool in tools]
    except Exception as error:  # a tool is anybody's program
        findings.problem(f"{key}={path}: {one_line(error)}")
        return
    findings.fact("tools", ", ".join(made))


def _tool(described: Any) -> str:
    """Build the tool as verl does; its name."""
    from omegaconf import OmegaConf
    from verl.tools.schemas import OpenAIFunctionToolSchema
    from verl.utils.import_utils import load_class_from_fqn

    schema: Any = OmegaConf.to_container(described.tool_schema, resolve=True)
    config = OmegaConf.to_container(described.config, resolve=True)
    cls: Any = load_class_from_fqn(described.class_name, "tool")
    cls(config=config, tool_schema=OpenAIFunctionToolSchema.model_validate(schema))
    return schema["function"]["name"]


def _build(config: Any, section: str) -> None:
    from omegaconf import OmegaConf
    from verl.utils.config import omega_conf_to_dataclass

    omega_conf_to_dataclass(OmegaConf.select(config, section))


def _attempt(findings: Findings, section: str, action: Any) -> None:
    try:
        action()
    except SystemExit as error:  # of our own check inside verl's
        findings.problem(str(error))
    # verl's checks are assertions and exceptions of several kinds.
    except Exception as error:
        cause = error.__cause__ or error
        findings.problem(f"{section}: verl refuses it: {one_line(cause)}")
