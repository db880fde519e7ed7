"""The rollout server: joined batches, aborts, errors, weights. A real tiny model, no Ray."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import ray
import torch
from hydra import compose, initialize_config_module

from tests.support.trainer import SMALL, Assets
from verl_stare.cpu import hf_server
from verl_stare.cpu.hf_server import HFServer

PROMPT = [5, 6, 7]


@pytest.fixture(scope="module")
def configs(assets: Assets) -> tuple[Any, Any]:
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=[*SMALL, *assets.overrides])
    return config.actor_rollout_ref.rollout, config.actor_rollout_ref.model


def serve(configs: tuple[Any, Any], body: Callable[[HFServer], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        server = HFServer(*configs, replica_rank=0)
        # Weights normally come from the trainer; make them the same for every server.
        generator = torch.Generator().manual_seed(0)
        for parameter in server.model.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.3
        await server.launch_server()
        return await body(server)

    return asyncio.run(main())


def call(seed: int, prompt: list[int] = PROMPT, **sampling: Any) -> dict[str, Any]:
    parameters = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "seed": seed, **sampling}
    return {"prompt_ids": prompt, "sampling_params": parameters, "request_id": f"r{seed}"}


def test_joined_and_single_requests_get_the_same_tokens(
    configs: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    generate = hf_server.generate

    def counted(model: Any, requests: list[Any], *rest: Any) -> None:
        sizes.append(len(requests))
        generate(model, requests, *rest)

    monkeypatch.setattr(hf_server, "generate", counted)

    async def body(server: HFServer) -> Any:
        joined = await server.generate_many([call(seed) for seed in range(6)])
        concurrent = await asyncio.gather(*[server.generate(**call(seed)) for seed in range(6)])
        single = [await server.generate(**call(seed)) for seed in range(6)]
        return [[output.token_ids for output in part] for part in (joined, concurrent, single)]

    joined, concurrent, single = serve(configs, body)
    assert joined == concurrent == single
    assert len({tuple(tokens) for tokens in joined}) == 6
    assert sizes == [6, 6, 1, 1, 1, 1, 1, 1]


def test_no_batch_is_larger_than_max_num_seqs(configs: tuple[Any, Any]) -> None:
    async def body(server: HFServer) -> Any:
        server.config.max_num_seqs = 4
        return await server.generate_many([call(seed) for seed in range(10)])

    assert all(output.token_ids for output in serve(configs, body))


def test_lengths_log_probs_and_steps_are_reported(configs: tuple[Any, Any]) -> None:
    async def body(server: HFServer) -> Any:
        await server.set_global_steps(3)
        plain = await server.generate(**call(1, max_tokens=4, ignore_eos=True))
        scored = await server.generate(**call(1, max_tokens=4, ignore_eos=True, logprobs=True))
        return plain, scored

    plain, scored = serve(configs, body)
    assert len(plain.token_ids) == 4
    assert plain.log_probs is None
    assert scored.token_ids == plain.token_ids
    assert len(scored.log_probs) == 4
    assert all(value < 0 for value in scored.log_probs)
    assert plain.stop_reason == "completed"
    assert plain.extra_fields["global_steps"] == 3


def test_requests_without_a_seed_differ(configs: tuple[Any, Any]) -> None:
    async def body(server: HFServer) -> Any:
        calls = [call(0), call(0)]
        for each in calls:
            del each["sampling_params"]["seed"]
        return await server.generate_many(calls)

    first, second = serve(configs, body)
    assert first.token_ids != second.token_ids


def test_a_prompt_without_room_is_refused(configs: tuple[Any, Any]) -> None:
    async def body(server: HFServer) -> Any:
        with pytest.raises(ValueError, match="a prompt of 64 tokens leaves no room in 64"):
            await server.generate(**call(0, prompt=[5] * 64))
        return await server.generate(**call(0, prompt=[5] * 63))

    assert len(serve(configs, body).token_ids) == 1


def test_a_request_that_cannot_be_served_fails_no_other(configs: tuple[Any, Any]) -> None:
    async def body(server: HFServer) -> Any:
        return await server.generate_many(
            [
                call(0),
                call(1, prompt=[5] * 64),
                call(2, stop=["x"]),
                call(3, repetition_penalty=1.1),
                call(4, repetition_penalty=1.0),
            ]
        )

    first, too_long, unknown, penalty, last = serve(configs, body)
    assert first.token_ids and last.token_ids
    assert isinstance(too_long, ValueError)
    assert isinstance(unknown, NotImplementedError) and "['stop']" in str(unknown)
    assert isinstance(penalty, NotImplementedError) and "repetition_penalty" in str(penalty)


def test_aborted_requests_return_and_later_ones_wait_for_resume(
    configs: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(server: HFServer) -> Any:
        running = asyncio.create_task(server.generate(**call(0)))
        await asyncio.sleep(0)
        report = await server.abort_all_requests()
        aborted = await running
        held = asyncio.create_task(server.generate(**call(1)))
        await asyncio.sleep(0.05)
        assert not held.done()
        await server.resume_generation()
        resumed = await held
        await server.abort_all_requests(reject_request=True)
        rejected = await server.generate(**call(2))
        return report, aborted, resumed, rejected

    report, aborted, resumed, rejected = serve(configs, body)
    assert report == {"aborted_count": 1, "request_ids": ["r0"]}
    assert aborted.stop_reason == rejected.stop_reason == "aborted"
    assert rejected.token_ids == []
    assert resumed.stop_reason == "completed"


def test_an_error_reaches_the_callers_and_the_server_lives_on(
    configs: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ArithmeticError("broken")

    async def body(server: HFServer) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(hf_server, "generate", broken)
            with pytest.raises(RuntimeError, match="broken"):
                await server.generate(**call(0))
        return await server.generate(**call(0))

    assert serve(configs, body).token_ids


def test_weights_are_copied_by_name_and_all_of_them(configs: tuple[Any, Any]) -> None:
    async def reference(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return state

    async def body(server: HFServer) -> None:
        state = {name: torch.full_like(p, 0.5) for name, p in server.model.named_parameters()}
        await server.load_weights([reference(state)])
        assert all((p == 0.5).all() for p in server.model.parameters())
        with pytest.raises(KeyError, match=r"does not have: .*no_such_weight"):
            await server.load_weights([reference({**state, "no_such_weight": torch.zeros(1)})])
        del state["lm_head.weight"]
        with pytest.raises(KeyError, match=r"did not send: .*lm_head\.weight"):
            await server.load_weights([reference(state)])

    serve(configs, body)
    assert not ray.is_initialized()
