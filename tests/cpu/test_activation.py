"""The CPU platform appears where no accelerator is, or on request, and never takes over."""

import os
import subprocess
import sys

import pytest
import torch
from verl.plugin.platform import PlatformRegistry

from verl_stare.cpu import activation
from verl_stare.cpu.platform import CpuPlatform


@pytest.mark.parametrize(
    ("present", "platform", "wanted", "asked"),
    [
        (False, None, True, False),
        (True, None, False, False),
        (True, "cpu", True, True),
        (True, "CPU ", True, True),
        (False, "nvidia", True, False),
    ],
)
def test_when_it_is_wanted_and_asked_for(
    monkeypatch: pytest.MonkeyPatch,
    present: bool,
    platform: str | None,
    wanted: bool,
    asked: bool,
) -> None:
    monkeypatch.setattr(activation, "accelerator_present", lambda: present)
    monkeypatch.delenv("VERL_PLATFORM", raising=False)
    if platform:
        monkeypatch.setenv("VERL_PLATFORM", platform)
    assert activation.wanted() is wanted
    assert activation.asked() is asked


def platform_of(**environment: str) -> str:
    code = (
        "import verl; from verl.plugin.platform import get_platform, PlatformRegistry; "
        "from verl.workers.rollout.replica import RolloutReplicaRegistry as rollouts; "
        "print(get_platform().device_name, 'cpu' in PlatformRegistry.registered_names(), "
        "'hf' in rollouts._registry)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={key: value for key, value in os.environ.items() if key != "VERL_PLATFORM"}
        | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_asking_selects_it() -> None:
    assert platform_of(VERL_PLATFORM="cpu") == "cpu True True"


@pytest.mark.skipif(activation.accelerator_present(), reason="needs a machine without accelerator")
def test_without_an_accelerator_it_is_registered_but_not_selected() -> None:
    # verl's own answer on such a machine, the head node of a GPU cluster for example.
    assert platform_of() == "cuda True True"


def test_the_device_module_passes_for_torch_cpu_and_has_what_verl_calls() -> None:
    platform = CpuPlatform()
    module = platform.device_module
    assert module == torch.cpu
    assert module.max_memory_allocated() == 0
    free, total = module.mem_get_info()
    assert 0 < free <= total
    assert module.device_count() == torch.cpu.device_count()
    assert f"cpu:{platform.current_device()}" == "cpu:0"
    assert torch.zeros(1, device=platform.current_device()).device.type == "cpu"
    state = module.get_rng_state()
    drawn = torch.rand(1)
    module.set_rng_state(state)
    assert torch.equal(torch.rand(1), drawn)


def test_registering_twice_is_harmless() -> None:
    from verl_stare.cpu import platform

    platform.register()
    first = PlatformRegistry.get("cpu")
    platform.register()
    assert PlatformRegistry.get("cpu") is first
