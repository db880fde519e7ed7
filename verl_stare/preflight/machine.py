"""Whether the GPUs that the run asks for are there: on this machine, or in a Ray cluster."""

from __future__ import annotations

import logging
import socket
from typing import Any

from verl_stare.preflight.batch import NODES, PER_NODE
from verl_stare.preflight.findings import Findings

GIB = 2**30
# Of the GPU that an estimate is for, where there is none to look at.
USUAL = 80 * GIB
SECONDS = 3.0


def gpu_memory() -> float | None:
    """Bytes of this machine's smallest GPU, None without one."""
    import torch

    count = torch.cuda.device_count()
    sizes = [torch.cuda.get_device_properties(index).total_memory for index in range(count)]
    return float(min(sizes)) if sizes else None


def check_gpus(config: Any, findings: Findings) -> None:
    """Report that a run on this machine alone has fewer GPUs than it asks for."""
    import torch

    wanted, nodes = config.trainer.n_gpus_per_node, config.trainer.nnodes
    there = torch.cuda.device_count()
    if nodes > 1:
        findings.problem(
            f"{NODES}={nodes}: more than one node needs a Ray cluster: set RAY_ADDRESS, or submit "
            "the recipe as a job of the cluster (recipes/README.md)"
        )
    elif there < wanted:
        findings.problem(
            f"{PER_NODE}={wanted}: this machine has {there or 'no'} GPU{'s' * (there > 1)}; "
            "without one a recipe runs on a tiny model (TINY=1), or is only checked (DRY_RUN=1)"
        )


def check_cluster(address: str, config: Any, findings: Findings, *, resources: bool) -> None:
    """Report a Ray address that nobody answers at, or a cluster with fewer GPUs than asked for.

    Args:
        address: RAY_ADDRESS.
        config: verl's.
        findings: to add to.
        resources: join the cluster for a moment to see its GPUs.
    """
    if not _answers(address, findings) or not resources:
        return
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, TimeoutError, ValueError) as error:
        findings.problem(f"RAY_ADDRESS={address}: Ray cannot join this cluster: {error}")
        return
    try:
        there = int(ray.cluster_resources().get("GPU", 0))
    finally:
        ray.shutdown()
    wanted = config.trainer.nnodes * config.trainer.n_gpus_per_node
    if there < wanted:
        findings.problem(
            f"{NODES}={config.trainer.nnodes}, {PER_NODE}={config.trainer.n_gpus_per_node}: "
            f"{wanted} GPUs, but the cluster at {address} has {there}"
        )


def _answers(address: str, findings: Findings) -> bool:
    if address in ("auto", "local"):
        return address == "auto"
    scheme, _, rest = address.rpartition("://")
    host, _, port = rest.rpartition(":")
    if not host or not port.isdecimal() or scheme not in ("", "ray"):
        findings.problem(
            f"RAY_ADDRESS={address}: must be HOST:PORT of the cluster's head, or auto (http://… is "
            "for `ray job submit`)"
        )
        return False
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS).close()
    except OSError as error:
        findings.problem(f"RAY_ADDRESS={address}: no Ray cluster answers there ({error})")
        return False
    return True
