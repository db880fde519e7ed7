"""When a process gets what is in this package."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from verl_stare.bridge import seams

PLATFORM = "cpu"
has = partial(seams.has, part="the CPU platform")


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
        from verl_stare.cpu import vllm_version, weight_transfer

        # verl registers its FSDP engines for the devices cuda and npu only.
        os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")
        patches.install()
        vllm_version.install()
        weight_transfer.install()
