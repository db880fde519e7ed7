"""The trainer's side of the `hf` rollout: hands its weights to the server through Ray."""

from __future__ import annotations

import os
from typing import Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.utils import ensure_async_iterator

from verl_stare.cpu.hf_replica import server_name


class HFServerAdapter(BaseRollout):
    """One per trainer rank; rank r feeds the server of replica r."""

    def __init__(
        self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1
    ) -> None:
        super().__init__(config, model_config, device_mesh)
        self.replica_rank = replica_rank if replica_rank >= 0 else int(os.environ["RANK"])
        self._server: Any = None

    def server(self) -> Any:
        """The server's handle; looked up late, since it starts after this adapter."""
        if self._server is None:
            self._server = ray.get_actor(server_name(self.replica_rank))
        return self._server

    async def resume(self, tags: list[str]) -> None:
        return None

    async def release(self) -> None:
        return None

    @torch.no_grad()
    async def update_weights(
        self,
        weights: Any,
        global_steps: int | None = None,
        wire_format: str = "named_tensors",
        **kwargs: Any,
    ) -> None:
        """Send all weights.

        Raises:
            NotImplementedError: LoRA adapters apart from the base, or verl's delta format.
        """
        if wire_format != "named_tensors":
            raise NotImplementedError(f"rollout.name=hf takes named tensors, not {wire_format}")
        if kwargs.get("peft_config") is not None and kwargs.get("base_sync_done"):
            raise NotImplementedError(
                "rollout.name=hf takes merged weights: set actor_rollout_ref.model.lora.merge=True"
            )
        # Each item gathers a shard from every rank, so every rank has to go through all of them.
        state = {
            name: value.detach().cpu().clone()
            async for name, value in ensure_async_iterator(weights)
        }
        await self.server().load_weights.remote([ray.put(state)])
        if global_steps is not None:
            await self.server().set_global_steps.remote(global_steps)
