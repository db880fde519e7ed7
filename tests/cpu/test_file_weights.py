"""Weights through a file: all of them arrive, never half of them, and nothing is left behind."""

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_module
from torch import Tensor
from verl.checkpoint_engine import CheckpointEngineRegistry

from tests.support.trainer import SMALL
from verl_stare.cpu import file_weights
from verl_stare.cpu.file_weights import FileWeights

WEIGHTS = {
    "a": torch.arange(6.0).view(2, 3),
    "b": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "c": torch.arange(10)[3:5],
}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def connect(actors: list[FileWeights], rollouts: list[FileWeights]) -> None:
    """What verl's CheckpointEngineManager does before a transfer."""
    metadata = [engine.prepare() for engine in actors + rollouts]
    topology = FileWeights.build_topology(len(actors), len(rollouts), metadata)
    for engines, arguments in zip((actors, rollouts), topology, strict=True):
        for rank, engine in enumerate(engines):
            engine.init_process_group(**{name: each[rank] for name, each in arguments.items()})


def pair(wait_seconds: float = 60) -> tuple[FileWeights, FileWeights]:
    actor = FileWeights(bucket_size=1, is_master=True)
    return actor, FileWeights(bucket_size=1, wait_seconds=wait_seconds)


async def receive(engine: FileWeights) -> dict[str, Tensor]:
    return {name: value async for name, value in engine.receive_weights(global_steps=1)}


def send(engine: FileWeights, weights: dict[str, Tensor]) -> None:
    asyncio.run(engine.send_weights(iter(weights.items()), global_steps=1))


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return list(left) == list(right) and all(
        left[name].dtype == right[name].dtype and torch.equal(left[name], right[name])
        for name in left
    )


def test_verl_finds_it_as_the_preset_names_it() -> None:
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=SMALL).actor_rollout_ref.rollout
    engine = config.checkpoint_engine
    assert engine.custom_backend_module == file_weights.__name__
    assert CheckpointEngineRegistry.get(engine.backend) is FileWeights


def test_every_receiver_gets_what_rank_0_has(temporary: Path) -> None:
    actors = [FileWeights(1, is_master=True), FileWeights(1)]
    rollouts = [FileWeights(1), FileWeights(1)]
    connect(actors, rollouts)
    gathered = []

    def shards() -> Iterator[tuple[str, Tensor]]:
        for name, value in WEIGHTS.items():
            gathered.append(name)
            yield name, value + 1

    async def transfer() -> list[Any]:
        return await asyncio.gather(
            *[receive(engine) for engine in rollouts],
            actors[0].send_weights(iter(WEIGHTS.items()), global_steps=1),
            actors[1].send_weights(shards(), global_steps=1),
        )

    first, second, *_ = asyncio.run(transfer())
    assert same(first, WEIGHTS)
    assert same(second, WEIGHTS)
    # Rank 1 takes part in gathering every weight.
    assert gathered == list(WEIGHTS)


def test_a_half_written_file_is_not_read(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    actor, rollout = pair(wait_seconds=0.2)
    connect([actor], [rollout])
    half, whole = threading.Event(), threading.Event()
    save = torch.save

    def in_two_parts(state: Any, path: Path) -> None:
        save(state, path)
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        half.set()
        assert whole.wait(timeout=60)
        path.write_bytes(content)

    monkeypatch.setattr(torch, "save", in_two_parts)
    writer = threading.Thread(target=send, args=(actor, WEIGHTS))
    writer.start()
    assert half.wait(timeout=60)
    with pytest.raises(TimeoutError, match="on one machine"):
        asyncio.run(receive(rollout))
    whole.set()
    writer.join()
    assert same(asyncio.run(receive(rollout)), WEIGHTS)


def test_weights_that_fail_halfway_are_not_sent(temporary: Path) -> None:
    actor, rollout = pair(wait_seconds=0.1)
    connect([actor], [rollout])

    def failing() -> Iterator[tuple[str, Tensor]]:
        yield "a", WEIGHTS["a"]
        raise ValueError("no b")

    with pytest.raises(ValueError, match="no b"):
        asyncio.run(actor.send_weights(failing()))
    with pytest.raises(TimeoutError):
        asyncio.run(receive(rollout))


def test_every_transfer_has_its_own_file_and_removes_it(temporary: Path) -> None:
    actor, rollout = pair()
    for step in (1.0, 2.0):
        sent = {"a": torch.tensor([step])}
        connect([actor], [rollout])
        send(actor, sent)
        # A receiver that is done takes nothing from the others.
        assert same(asyncio.run(receive(rollout)), sent)
        rollout.finalize()
        assert len(list(temporary.iterdir())) == 1
        actor.finalize()
        assert not list(temporary.iterdir())


def test_what_a_failed_transfer_left_is_removed_and_not_received(temporary: Path) -> None:
    actor, rollout = pair(wait_seconds=0.1)
    connect([actor], [rollout])
    send(actor, WEIGHTS)
    connect([actor], [rollout])
    assert len(list(temporary.iterdir())) == 1
    with pytest.raises(TimeoutError):
        asyncio.run(receive(rollout))


def test_a_view_is_written_without_what_it_is_a_view_of(temporary: Path) -> None:
    actor, rollout = pair()
    connect([actor], [rollout])
    send(actor, {"a": torch.zeros(1_000_000)[:2]})
    (file,) = temporary.glob("*/*")
    assert file.stat().st_size < 10_000


def test_moving_weights_without_preparing_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="prepared"):
        send(FileWeights(1, is_master=True), WEIGHTS)
