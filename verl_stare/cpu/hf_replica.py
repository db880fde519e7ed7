"""The `hf` rollout replica: one server actor beside each trainer rank."""

from __future__ import annotations

from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from verl.workers.rollout.replica import RolloutReplica

from verl_stare.cpu.hf_server import HFServer


def server_name(replica_rank: int) -> str:
    """The Ray actor name by which the trainer's rank finds its server."""
    return f"hf_server_{replica_rank}"


class HFReplica(RolloutReplica):
    """Launches the server on the node of its worker; without tensor parallelism."""

    async def launch_servers(self) -> None:
        if self.world_size != 1:
            raise ValueError(
                f"rollout.name=hf runs one process a replica, not {self.world_size}: set "
                "rollout.tensor_model_parallel_size=1"
            )
        if self.is_reward_model or self.is_teacher_model:
            raise NotImplementedError("rollout.name=hf serves the policy only")
        worker: Any = self.workers[0]
        node = await worker.__ray_call__.remote(
            lambda self: ray.get_runtime_context().get_node_id()
        )
        server: Any = (
            ray.remote(HFServer)
            .options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node, soft=False),
                num_cpus=0,
                name=server_name(self.replica_rank),
                max_concurrency=self.max_concurrency,
            )
            .remote(
                config=self.config,
                model_config=self.model_config,
                replica_rank=self.replica_rank,
            )
        )
        self.servers = [server]
        await server.launch_server.remote()
        host, port = await server.get_server_address.remote()
        self._server_handle = server
        self._server_address = f"{host}:{port}"
