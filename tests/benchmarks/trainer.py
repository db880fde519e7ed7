"""verl's `_compute_advantage` with and without STARE, on a TransferQueue of its own."""

from __future__ import annotations

import gc
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import numpy as np
import ray
import torch
import transfer_queue as tq
from hydra import compose, initialize_config_module
from tensordict import NonTensorStack, TensorDict
from verl.trainer.ppo.v1 import get_trainer_cls

from tests.benchmarks.batches import Batch


def _config(*overrides: str) -> Any:
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose(
            "ppo_trainer",
            overrides=["hydra.searchpath=[pkg://verl_stare.presets]", "+cpu=tiny", *overrides],
        )


@contextmanager
def queue() -> Iterator[None]:
    """A local Ray with a TransferQueue."""
    config = _config()
    ray.init(
        address="local",
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=2_000_000_000,
    )
    config.transfer_queue.enable = True
    tq.init(config.transfer_queue)
    try:
        yield
    finally:
        tq.close()
        ray.shutdown()


def addition(batch: Batch, group: int, rounds: int) -> dict[str, float]:
    """Median seconds of verl's own, with STARE (gate open), and of the difference by rounds."""
    grpo = _trainer("algorithm.adv_estimator=grpo")
    stare = _trainer("algorithm.adv_estimator=stare", "+algorithm.stare.target_entropy=100")
    meta = _store(batch, group)
    seconds: dict[str, list[float]] = {"verl": [], "stare": []}
    try:
        for turn in range(rounds + 1):
            for name, trainer in (("verl", grpo), ("stare", stare)):
                gc.collect()
                start = time.perf_counter()
                trainer._compute_advantage(meta, {})
                if turn:
                    seconds[name].append(time.perf_counter() - start)
    finally:
        tq.kv_clear(keys=meta.keys, partition_id=meta.partition_id)
    pairs = zip(seconds["stare"], seconds["verl"], strict=True)
    return {
        "verl": median(seconds["verl"]),
        "stare": median(seconds["stare"]),
        "added": median(ours - theirs for ours, theirs in pairs),
    }


def _trainer(*overrides: str) -> Any:
    trainer: Any = get_trainer_cls("sync")(_config(*overrides))
    return trainer


def _store(batch: Batch, group: int) -> Any:
    rows = len(batch.lengths)
    rewards = torch.zeros_like(batch.surprisal)
    rewards[batch.lengths.cumsum(0) - 1] = torch.from_numpy(
        np.random.default_rng(0).integers(0, 2, rows).astype(np.float32)
    )
    fields = {
        "response_mask": batch.response_mask.long(),
        "rm_scores": rewards,
        "rollout_log_probs": -batch.surprisal,
        "old_log_probs": -batch.surprisal,
        "entropy": batch.entropy,
    }
    jagged: dict[str, Any] = {name: batch.jagged(values) for name, values in fields.items()}
    uids = [f"{uuid.uuid4()}" for _ in range(rows // group + 1)]
    jagged["uid"] = NonTensorStack(*[uids[row // group] for row in range(rows)])
    keys = [f"{uids[row // group]}_{row % group}_0" for row in range(rows)]
    return tq.kv_batch_put(
        keys=keys, partition_id="train", fields=TensorDict(jagged, batch_size=rows)
    )
