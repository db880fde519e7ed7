"""Weights from the trainer to a rollout that does not share its devices, through a file.

verl's own checkpoint engines for that (nccl, nixl, mooncake, ...) need a GPU or a network card. For
`actor_rollout_ref.rollout.checkpoint_engine.{backend,custom_backend_module}`, on one machine.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import torch
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry
from verl.workers.rollout.utils import ensure_async_iterator

NAME = "cpu_file"
_POLL_SECONDS = 0.02


@CheckpointEngineRegistry.register(NAME)  # pyright: ignore[reportAttributeAccessIssue]
class FileWeights(CheckpointEngine):
    """verl calls prepare, build_topology, init_process_group, send and receive, finalize, in order.

    Each time, rank 0 of the trainer makes a new folder, so that no old weights can be taken for
    new ones, and removes it at the end.

    Args:
        bucket_size: of no use here.
        is_master: whether this is the trainer's rank 0.
        wait_seconds: how long a receiver waits for the file.
    """

    def __init__(
        self, bucket_size: int, is_master: bool = False, wait_seconds: float = 600
    ) -> None:
        self.is_master = is_master
        self.wait_seconds = wait_seconds
        self._folder: Path | None = None

    def prepare(self) -> dict[str, Any]:
        # What a failed transfer has left.
        self.finalize()
        if self.is_master:
            self._folder = Path(tempfile.mkdtemp(prefix="verl_stare_weights_"))
            # In case the run ends before `finalize`.
            atexit.register(self.finalize)
        return {"folder": self._folder}

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: list[dict[str, Any]]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        # The trainer's ranks come first.
        folder = metadata[0]["folder"]
        return {"folder": [folder] * actor_wg_world_size}, {"folder": [folder] * rollout_world_size}

    def init_process_group(self, folder: Path) -> None:
        self._folder = folder

    @torch.no_grad()
    async def send_weights(self, weights: Any, global_steps: int | None = None) -> None:
        """Write all weights; only rank 0 does.

        Args:
            weights: names and tensors. Each gathers a shard from every rank, so every rank has to
                go through all of them.
            global_steps: of no use here.
        """
        state: dict[str, torch.Tensor] = {}
        async for name, value in ensure_async_iterator(weights):
            if self.is_master:
                # A view would be written with all that it is a view of.
                state[name] = value.detach().cpu().clone()
        if self.is_master:
            partial = self._file.with_suffix(".partial")
            torch.save(state, partial)
            # The name appears once the file is whole.
            os.replace(partial, self._file)

    async def receive_weights(
        self, global_steps: int | None = None
    ) -> AsyncGenerator[tuple[str, torch.Tensor], None]:
        """Names and tensors, once they are there.

        Raises:
            TimeoutError: they did not come.
        """
        deadline = time.monotonic() + self.wait_seconds
        while not self._file.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"no {self._file} after {self.wait_seconds} s: {NAME} needs the trainer and "
                    "the rollout on one machine"
                )
            await asyncio.sleep(_POLL_SECONDS)
        for name, value in torch.load(self._file, weights_only=True).items():
            yield name, value

    def finalize(self) -> None:
        if self.is_master and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            atexit.unregister(self.finalize)
        self._folder = None

    @property
    def _file(self) -> Path:
        if self._folder is None:
            raise RuntimeError("verl moves weights before it has prepared for it")
        return self._folder / "weights.pt"
