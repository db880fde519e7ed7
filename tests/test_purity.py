"""The arithmetic imports neither the trainer nor what belongs to it."""

import subprocess
import sys

import pytest

FORBIDDEN = ("verl", "ray", "hydra", "transfer_queue", "transformers")


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "verl_stare.config",
        "verl_stare.algo",
        "verl_stare.metrics",
        "verl_stare.runlog",
        "verl_stare.sandbox",
    ],
)
def test_pure_layers_load_no_trainer(module: str) -> None:
    loaded = loaded_by(f"import {module}")
    assert "verl_stare" in loaded
    assert not loaded & set(FORBIDDEN)


def test_the_package_itself_loads_nothing_heavy() -> None:
    loaded = loaded_by("import verl_stare, verl_stare.presets, verl_stare.cli, verl_stare.doctor")
    assert not loaded & {*FORBIDDEN, "torch", "numpy", "omegaconf"}


def test_the_sandbox_loads_nothing_heavy() -> None:
    loaded = loaded_by(
        "import verl_stare.sandbox, verl_stare.sandbox.calls, verl_stare.sandbox.tally"
    )
    assert not loaded & {*FORBIDDEN, "torch", "numpy", "httpx", "omegaconf", "pyseccomp"}


def test_a_vllm_that_is_no_rollout_of_ours_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    register = "from verl_stare.vllm_plugin import register; register()"
    monkeypatch.delenv("VERL_PLATFORM", raising=False)
    assert not loaded_by(register) & {*FORBIDDEN, "torch", "vllm"}
    monkeypatch.setenv("VERL_PLATFORM", "nvidia")
    assert not loaded_by(register) & {*FORBIDDEN, "torch", "vllm"}


def test_the_plugin_loads_no_trainer_module_of_verl() -> None:
    code = (
        "import sys, verl; "
        "print(*sorted(m for m in sys.modules if m.startswith('verl.trainer'))); "
        "print('verl_stare.bridge.plugin' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    trainer_modules, active = done.stdout.split("\n")[:2]
    assert trainer_modules == ""
    assert active == "True"
