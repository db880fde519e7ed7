"""Running verl's real trainer on a machine without an accelerator: for demos, tests and debugging.

verl gets a platform named `cpu` and a rollout named `hf` (generation by transformers), where no
accelerator is present or where they are asked for. They take effect only when asked for, by
`VERL_PLATFORM=cpu` and `actor_rollout_ref.rollout.name=hf`: a driver on the CPU-only head node of a
GPU cluster looks like a machine without a GPU, and must not be taken for one.
"""

from __future__ import annotations

import os
from pathlib import Path

PLATFORM = "cpu"


def wanted() -> bool:
    """Whether this process runs, or was asked to run, without an accelerator."""
    return asked() or not accelerator_present()


def asked() -> bool:
    """Whether `VERL_PLATFORM` names our platform."""
    return os.environ.get("VERL_PLATFORM", "").strip().lower() == PLATFORM


def accelerator_present() -> bool:
    """Whether torch or the driver's device file shows one.

    Ray hides the GPUs from actors that did not ask for one, the device file stays.
    """
    import torch

    return torch.accelerator.is_available() or Path("/dev/nvidiactl").exists()


def install() -> None:
    """Register platform and rollout where wanted; patch verl only where asked."""
    if not wanted():
        return
    from verl_stare.cpu import patches, platform, registration

    platform.register()
    registration.install()
    if asked():
        # verl registers its FSDP engines for the devices cuda and npu only.
        os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")
        patches.install()
