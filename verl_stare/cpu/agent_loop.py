"""verl's agent loops on a CPU: a seed for every request, and few remote calls.

The loops themselves (`single_turn_agent`, `tool_agent`, ...) and the reward function are verl's.
Only the transport differs: requests to the servers and writes to the TransferQueue are joined, the
reward worker runs inside the agent worker, and columns that nobody reads any more are not stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import hydra
import ray
import transfer_queue
from hydra.utils import get_class
from omegaconf import OmegaConf
from verl.experimental.agent_loop import agent_loop
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
from verl.trainer.ppo.v1 import agent_loop_tq
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from verl_stare.cpu.activation import has
from verl_stare.cpu.coalesce import Coalescer, RemoteMethod
from verl_stare.cpu.generation import derive_seed
from verl_stare.cpu.patches import ORDER

# Columns of the dataset that only agent loop and reward function read. verl stores and moves them
# with every trajectory, which takes a quarter of a tiny model's step.
UNREAD = (
    "ability",
    "dummy_tensor",
    "extra_info",
    "index",
    "interaction_kwargs",
    "raw_prompt",
    "tools_kwargs",
)
_JOINED_REQUESTS = 32
# Names in verl's modules that a worker process gets others for.
_REPLACED = (
    (agent_loop, "hydra"),
    (agent_loop_tq, "tq"),
    (agent_loop_tq, "list_of_dict_to_tensordict"),
)
_Worker: Any = AgentLoopWorkerTQ.__ray_metadata__.modified_class  # pyright: ignore


class SeededWorker(_Worker):
    """verl's worker; every request carries a seed of (run, step, prompt, sample number).

    `rollout.name=hf` samples a request from the seed in its sampling parameters.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        missing = [
            f"{module.__name__}.{name}" for module, name in _REPLACED if not has(module, name)
        ]
        if missing:
            raise RuntimeError(f"{', '.join(missing)}: not in this verl")
        if self.rollout_config.name == "hf":
            _join_requests(self.llm_client)
        if self.reward_loop_worker_handles and not self.config.reward.reward_model.enable:
            scorer = RewardLoopWorker(self.config)
            self.reward_loop_worker_handles = [
                SimpleNamespace(compute_score=RemoteMethod(scorer.compute_score))
            ]
        # A reward model that shares the trainer's devices scores what is stored, later.
        _join_writes(unread=UNREAD if self.reward_loop_worker_handles else ())
        fast = SimpleNamespace(utils=SimpleNamespace(instantiate=_instantiate))
        agent_loop.hydra = fast  # pyright: ignore[reportPrivateImportUsage]

    async def _run_agent_loop(
        self, sampling_params: dict[str, Any], trajectory: dict[str, Any], **kwargs: Any
    ) -> Any:
        seed = derive_seed(
            self.rollout_config.seed,
            int(trajectory["step"]),
            bool(trajectory["validate"]),
            # Not its uid, which verl draws at random.
            [dict(message) for message in kwargs["raw_prompt"]],
            kwargs["session_id"],
        )
        return await super()._run_agent_loop(
            {**sampling_params, "seed": seed}, trajectory, **kwargs
        )


class SeededAgentLoopManager(AgentLoopManagerTQ):
    """For `actor_rollout_ref.rollout.agent.agent_loop_manager_class`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(SeededWorker)


def _instantiate(config: Any, **arguments: Any) -> Any:
    """Hydra's `instantiate`, which costs milliseconds for every trajectory, for a flat `config`."""
    if any(OmegaConf.is_config(value) for value in config.values()):
        return hydra.utils.instantiate(config, **arguments)
    own = {key: value for key, value in config.items() if key != "_target_"}
    return get_class(config["_target_"])(**own, **arguments)


def _join_requests(client: Any) -> None:
    """Let `client` (verl's LLMServerClient) send the requests of one moment in one call.

    The client asks its load balancer for a server before each request. It gets a stand-in here; the
    real one is asked for once per joined call. These are small enough for the balancer to spread
    them over replicas; each server puts what it gets into one batch again.
    """
    acquire, release = client._acquire_server, client._release_server

    async def send_part(part: list[dict[str, Any]]) -> list[Any]:
        name = part[0]["request_id"]
        server_id, server = await acquire(name)
        try:
            return await server.generate_many.remote(part)
        finally:
            release(server_id, request_id=name)

    async def send(calls: list[dict[str, Any]]) -> list[Any]:
        parts = [calls[i : i + _JOINED_REQUESTS] for i in range(0, len(calls), _JOINED_REQUESTS)]
        outputs = await asyncio.gather(*[send_part(part) for part in parts])
        return [output for part in outputs for output in part]

    requests = Coalescer(send)

    async def generate(**call: Any) -> Any:
        return await requests.submit(call)

    stand_in = SimpleNamespace(generate=RemoteMethod(generate))

    async def acquire_stand_in(request_id: str, **_: Any) -> tuple[str, Any]:
        return "", stand_in

    client._acquire_server = acquire_stand_in
    client._release_server = lambda *_, **__: None


def _join_writes(unread: Sequence[str]) -> None:
    """Let the agent worker's module store the trajectories of one moment in one write.

    Args:
        unread: columns to leave out.
    """

    async def write(items: list[tuple[str, str, dict[str, Any], dict[str, Any]]]) -> list[None]:
        # One write has one partition and one set of fields (agent loops may store different ones).
        for partition, names in sorted({(item[0], tuple(sorted(item[2]))) for item in items}):
            rows = [
                item[1:]
                for item in items
                if item[0] == partition and tuple(sorted(item[2])) == names
            ]
            await transfer_queue.async_kv_batch_put(
                keys=[key for key, _, _ in rows],
                fields=list_of_dict_to_tensordict([field for _, field, _ in rows]),
                tags=[tag for _, _, tag in rows],
                partition_id=partition,
            )
        return [None] * len(items)

    trajectories = Coalescer(write)

    async def write_tags(items: list[tuple[str, str, dict[str, Any]]]) -> list[None]:
        for partition in sorted({item[0] for item in items}):
            rows = [item[1:] for item in items if item[0] == partition]
            await transfer_queue.async_kv_batch_put(
                keys=[key for key, _ in rows],
                tags=[tag for _, tag in rows],
                partition_id=partition,
            )
        return [None] * len(items)

    statuses = Coalescer(write_tags)

    async def put(key: str, partition_id: str, tag: dict[str, Any]) -> None:
        await statuses.submit((partition_id, key, tag))

    async def batch_put(
        keys: list[str],
        fields: list[dict[str, Any]],
        tags: list[dict[str, Any]],
        partition_id: str,
    ) -> None:
        for key, field, tag in zip(keys, fields, tags, strict=True):
            for name in unread:
                field.pop(name, None)
            session = key.split("_", 1)[1]
            tag[ORDER] = derive_seed(field["prompts"].tolist(), session)
        await asyncio.gather(
            *[
                trajectories.submit((partition_id, key, field, tag))
                for key, field, tag in zip(keys, fields, tags, strict=True)
            ]
        )

    agent_loop_tq.tq = SimpleNamespace(  # pyright: ignore
        init=transfer_queue.init, async_kv_put=put, async_kv_batch_put=batch_put
    )
    # The rows stay dicts until those of all trajectories are at hand.
    agent_loop_tq.list_of_dict_to_tensordict = lambda rows: rows  # pyright: ignore
