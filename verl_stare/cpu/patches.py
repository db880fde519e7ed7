"""The spots of verl 0.9 that assume an accelerator and that a registered platform cannot reach.

Each is wrapped when its module is imported, and only under `VERL_PLATFORM=cpu`.
"""

from __future__ import annotations

import os
from datetime import timedelta
from types import ModuleType
from typing import Any

import torch
import wrapt

from verl_stare.cpu.activation import has

POLL_SECONDS = 0.05
# Tag in which our agent workers write the place of a row in its batch.
ORDER = "order"


def install() -> None:
    """Register the patches; nothing of verl is imported."""
    for hook, module in (
        (_process_group, "verl.utils.distributed"),
        (_no_pinned_offload, "verl.workers.engine.fsdp.transformer_impl"),
        (_copies_of_weights, "verl.utils.fsdp_utils"),
        (_critic_attention, "verl.utils.model"),
        (_poll_often, "verl.trainer.ppo.v1.replay_buffer"),
        (_keep_order, "verl.trainer.ppo.v1.replay_buffer"),
        (_log_probs_at_once, "verl.utils.torch_functional"),
    ):
        wrapt.register_post_import_hook(hook, module)


def _process_group(module: ModuleType) -> None:
    # verl joins "cpu:gloo" and "<device>:<backend>"; torch rejects "cpu:gloo,cpu:gloo".
    name = "initialize_global_process_group_ray"
    if not has(module, name, ("timeout_second", "backend")):
        return

    def wrapper(wrapped: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) < 2 and kwargs.get("backend") is None:
            kwargs = {**kwargs, "backend": "cpu:gloo"}
        return wrapped(*args, **kwargs)

    wrapt.wrap_function_wrapper(module, name, wrapper)
    # The same for processes that torchrun has started, as the supervised trainer's: no backend to
    # choose there.
    if not has(module, "initialize_global_process_group", ("timeout_second",)):
        return

    def initialize(timeout_second: int = 36000) -> tuple[int, int, int]:
        torch.distributed.init_process_group(
            "cpu:gloo",
            timeout=timedelta(seconds=timeout_second),
            init_method=os.environ.get("DIST_INIT_METHOD"),
        )
        local = int(os.environ["LOCAL_RANK"])
        return local, torch.distributed.get_rank(), torch.distributed.get_world_size()

    module.initialize_global_process_group = initialize  # pyright: ignore


def _no_pinned_offload(module: ModuleType) -> None:
    # The reference model asks for pinned host memory, which needs an accelerator. There is nothing
    # to offload from a CPU, so there is no policy.
    if has(module, "CPUOffloadPolicy", ()):
        module.CPUOffloadPolicy = lambda *_, **__: None  # pyright: ignore


def _copies_of_weights(module: ModuleType) -> None:
    # The asynchronous trainer keeps the weights of a step's start with `.cpu()`, which copies from
    # an accelerator but not from a CPU: the kept weights would follow the optimizer.
    name = "fsdp2_sharded_save_to_cpu"
    if not has(module, name, ("model",)):
        return

    def wrapper(wrapped: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        shards, layout = wrapped(*args, **kwargs)
        return {name: (shard.clone(), spec) for name, (shard, spec) in shards.items()}, layout

    wrapt.wrap_function_wrapper(module, name, wrapper)


def _critic_attention(module: ModuleType) -> None:
    # The critic is loaded with flash attention, whatever the configuration says.
    name = "load_valuehead_model"
    parameters = ("local_path", "torch_dtype", "model_config", "trust_remote_code")
    if not has(module, name, parameters):
        return

    def load(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
        from transformers import AutoModelForTokenClassification

        return AutoModelForTokenClassification.from_pretrained(
            local_path,
            dtype=torch_dtype,
            config=model_config,
            attn_implementation="sdpa",
            trust_remote_code=trust_remote_code,
        )

    module.load_valuehead_model = load  # pyright: ignore


def _poll_often(module: ModuleType) -> None:
    # The replay buffer looks for finished rollouts every 2 s, most of a tiny model's step. The
    # default is changed, not the class: a custom sampler would switch dynamic sampling off.
    if not has(module, "ReplayBuffer.__init__", ("self", "trainer_mode", "trainer_config")):
        return

    def wrapper(wrapped: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return wrapped(*args, **{"poll_interval": POLL_SECONDS, **kwargs})

    wrapt.wrap_function_wrapper(module.ReplayBuffer, "__init__", wrapper)


def _keep_order(module: ModuleType) -> None:
    # Rows come in the order in which trajectories finished, which decides the rounding of sums over
    # the batch. Our agent workers tag each with its place.
    name = "ReplayBuffer._materialize_batch"
    if not has(module, name, ("self", "partition_id", "selected_prompt_uids")):
        return

    def wrapper(wrapped: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        batch = wrapped(*args, **kwargs)
        places = [tag.get(ORDER) for tag in batch.tags]
        if None not in places:
            batch.reorder(sorted(range(len(places)), key=places.__getitem__))
        return batch

    wrapt.wrap_function_wrapper(module, name, wrapper)


def _log_probs_at_once(module: ModuleType) -> None:
    # verl loops over rows to save memory, and what it calls rows are single tokens once the batch
    # is flat: thousands of tiny operations in every pass of a tiny model.
    name = "logprobs_from_logits_v2"
    if not has(module, name, ("logits", "labels")):
        return

    def log_probs(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        chosen = logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        return chosen - logits.logsumexp(-1)

    module.logprobs_from_logits_v2 = log_probs  # pyright: ignore
