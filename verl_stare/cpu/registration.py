"""Makes the `hf` rollout known to verl; its modules load when a run chooses it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import wrapt

from verl_stare.cpu.activation import has

NAME = "hf"
_ADAPTER = "verl_stare.cpu.hf_adapter.HFServerAdapter"


def install() -> None:
    """Register the hooks; nothing of verl is imported."""
    wrapt.register_post_import_hook(_adapter, "verl.workers.rollout.base")
    wrapt.register_post_import_hook(_replica, "verl.workers.rollout.replica")


def _adapter(module: ModuleType) -> None:
    if has(module, "_ROLLOUT_REGISTRY"):
        module._ROLLOUT_REGISTRY[(NAME, "async")] = _ADAPTER


def _replica(module: ModuleType) -> None:
    def load() -> Any:
        from verl_stare.cpu.hf_replica import HFReplica

        return HFReplica

    if has(module, "RolloutReplicaRegistry.register", ("name", "loader")):
        module.RolloutReplicaRegistry.register(NAME, load)
