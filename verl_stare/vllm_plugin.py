"""vLLM's entry point (group `vllm.general_plugins`): called in each of vLLM's processes.

It lies outside of `verl_stare.cpu`, so that a vLLM that has nothing to do with it loads nothing.
"""

from __future__ import annotations

import os


def register() -> None:
    """Adapt vLLM to being trained with on a CPU, under `VERL_PLATFORM=cpu`."""
    if os.environ.get("VERL_PLATFORM", "").strip().lower() != "cpu":
        return
    from verl_stare.cpu import vllm_shared_memory, vllm_weights

    vllm_weights.install()
    vllm_shared_memory.install()
