"""The `cpu` platform of verl's registry: torch.cpu with an accelerator's functions."""

from __future__ import annotations

import os
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

from verl_stare.cpu.activation import PLATFORM


def register() -> None:
    """Put the platform into verl's registry, once."""
    if PlatformRegistry.get(PLATFORM) is None:
        PlatformRegistry.register(platform=PLATFORM)(CpuPlatform)


class _CpuModule(types.ModuleType):
    """torch.cpu plus memory and no-op functions.

    verl compares its device module with torch.cpu where a CPU needs other handling, so this
    equals it.
    """

    def __eq__(self, other: object) -> bool:
        return other is torch.cpu or other is self

    def __hash__(self) -> int:
        return hash(torch.cpu)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)


class _CpuIndex(str):
    """`cpu` wherever a device is expected, but 0 in `f"{device_name}:{index}"`."""

    def __format__(self, format_spec: str) -> str:
        return "0"


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _zero(*args: Any, **kwargs: Any) -> int:
    return 0


def _device_module() -> types.ModuleType:
    module = _CpuModule("verl_stare.cpu.torch_cpu")
    for name in (
        "max_memory_allocated",
        "max_memory_reserved",
        "memory_allocated",
        "memory_reserved",
    ):
        setattr(module, name, _zero)
    for name in (
        "empty_cache",
        "ipc_collect",
        "reset_peak_memory_stats",
        "reset_accumulated_memory_stats",
        "set_per_process_memory_fraction",
        "set_device",
        "synchronize",
        "manual_seed",
        "manual_seed_all",
    ):
        setattr(module, name, _nothing)

    def mem_get_info(*args: Any, **kwargs: Any) -> tuple[int, int]:
        page = os.sysconf("SC_PAGE_SIZE")
        return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page

    module.mem_get_info = mem_get_info  # pyright: ignore[reportAttributeAccessIssue]
    module.get_device_name = lambda *_, **__: "CPU"  # pyright: ignore
    module.get_rng_state = lambda *_, **__: torch.get_rng_state()  # pyright: ignore
    module.set_rng_state = lambda state, *_, **__: torch.set_rng_state(state)  # pyright: ignore
    return module


class CpuPlatform(PlatformBase):
    """verl's view of the CPU as a device. Ray has to be given logical GPUs (`num_gpus`) for it."""

    _module = _device_module()
    _index = _CpuIndex("cpu")

    @property
    def device_name(self) -> str:
        return "cpu"

    @property
    def vendor_name(self) -> str:
        return "cpu"

    @property
    def device_module(self) -> Any:
        return self._module

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        # What verl's automatic detection asks. A machine without a GPU is no reason to choose this
        # platform (see the package's docstring), and VERL_PLATFORM=cpu does not ask.
        return False

    def current_device(self) -> Any:
        return self._index

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: Any) -> None:
        return None

    def synchronize(self, device_index: Any = None) -> None:
        return None

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        return None

    def empty_cache(self) -> None:
        return None

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        # Not CUDA_VISIBLE_DEVICES: nothing should be led to look for a GPU.
        return "VERL_CPU_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        return None

    def profiler_stop(self) -> None:
        return None

    # verl's resource pools count only Ray resources named GPU and NPU, so a rank asks for a logical
    # GPU, which `ray_kwargs.ray_init.num_gpus` declares.
    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_resource_options(self, num_gpus: float) -> dict[str, Any]:
        return {"num_gpus": num_gpus}

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    def rollout_env_vars(self) -> dict[str, str]:
        return {}

    def cudart(self) -> None:
        return None
