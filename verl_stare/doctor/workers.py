"""Whether the plugin is active inside Ray's workers, on every node."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from verl_stare.doctor import versions
from verl_stare.doctor.report import Line, describe, fail, note, ok

# Importing verl takes a worker some ten seconds, and minutes from a slow shared file system.
TIMEOUT_SECONDS = 300
# As little as Ray allows.
LOCAL = {
    "address": "local",
    "num_cpus": 1,
    "include_dashboard": False,
    "object_store_memory": 100 * 2**20,
}


def left_out() -> Iterator[Line]:
    """Say that nothing was looked at."""
    yield note("not checked (--no-ray)")


def check(address: str | None, config: Any) -> Iterator[Line]:
    """Ask a worker on each node of a Ray cluster.

    Args:
        address: of a running one; None starts one here.
        config: verl's configuration, whose environment the workers get; None for verl's default.
    """
    import ray

    place: dict[str, Any] = LOCAL if address is None else {"address": address}
    ray.init(
        **place,
        runtime_env=runtime_env(config),
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    try:
        yield from ask_every_node()
    finally:
        ray.shutdown()


def runtime_env(config: Any) -> dict[str, Any]:
    """The environment that verl's entry point gives to its workers."""
    from omegaconf import OmegaConf
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    written = {}
    if config is not None:
        written = OmegaConf.select(config, "ray_kwargs.ray_init.runtime_env") or {}
    merged: Any = OmegaConf.to_container(OmegaConf.merge(get_ppo_ray_runtime_env(config), written))
    return merged


def ask_every_node() -> Iterator[Line]:
    """The findings of one worker on each node that verl can use, of the Ray connected to."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # Nested, so that it travels by value and says itself what a node lacks.
    def look() -> tuple[dict[str, str | None], list[Line]]:
        import verl as verl

        from verl_stare.doctor import process, versions

        return versions.installed(), [*process.seams_found(), *process.plugin_active()]

    # No CPU of its own, so that a busy cluster answers.
    task = ray.remote(num_cpus=0, max_retries=0)(look)
    answers: dict[Any, str] = {}
    for node in ray.nodes():
        name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
        if not node["Alive"]:
            continue
        if not node["Resources"].get("CPU"):
            yield note(f"{name}: has no CPU for verl's processes, not checked")
            continue
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        answers[task.options(scheduling_strategy=there).remote()] = name
    if not answers:
        yield fail("no node has a CPU for verl's processes")
        return
    _, late = ray.wait(list(answers), num_returns=len(answers), timeout=TIMEOUT_SECONDS)
    for answer, name in answers.items():
        if answer in late:
            yield fail(f"{name}: no answer within {TIMEOUT_SECONDS} s")
            continue
        try:
            there, lines = ray.get(answer)
        except Exception as error:
            # Ray's own message is the worker's traceback.
            yield fail(f"{name}: {describe(getattr(error, 'cause', None) or error)}")
            continue
        yield from judge(name, versions.installed(), there, lines)


def judge(
    name: str, here: dict[str, str | None], there: dict[str, str | None], lines: list[Line]
) -> Iterator[Line]:
    """What one worker found, in short if all is well.

    Args:
        name: of its node.
        here, there: versions in this process and in the worker.
        lines: the worker's.
    """
    failures = [line for line in lines if line.failed]
    for line in failures:
        yield fail(f"{name}: {line.text}")
    for package, version in there.items():
        if version != here[package]:
            # The driver decides and the worker applies; the others may differ by device.
            verdict = fail if package in ("verl", "verl_stare") else note
            yield verdict(f"{name}: {package} {version}, here {here[package]}")
    if not failures:
        found = ", ".join(f"{package} {version}" for package, version in there.items() if version)
        yield ok(f"{name}: the plugin is active; {found}")
