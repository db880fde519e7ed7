"""Sampling: each request from its own stream, truncation, stops, and the cache."""

import math
from collections import Counter

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from verl_stare.cpu.generation import Request, derive_seed, generate, sample, uniforms

VOCABULARY = 20


@pytest.fixture(scope="module")
def model() -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=24,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    return Qwen2ForCausalLM(config).eval()


def request(prompt: list[int], seed: int, **settings: object) -> Request:
    return Request(prompt=prompt, new_tokens=8, seed=seed, **settings)  # type: ignore[arg-type]


def results(requests: list[Request], model: Qwen2ForCausalLM) -> list[list[int]]:
    generate(model, requests, pad_id=0, vocabulary=VOCABULARY)
    return [each.tokens for each in requests]


PROMPTS = [[3, 4, 5], [6], [3, 4, 5], [7, 8, 9, 10, 11]]


def batch() -> list[Request]:
    return [request(prompt, seed) for seed, prompt in enumerate(PROMPTS)]


def test_neighbours_and_order_do_not_matter(model: Qwen2ForCausalLM) -> None:
    together = results(batch(), model)
    assert [results([one], model)[0] for one in batch()] == together
    assert results(batch()[::-1], model) == together[::-1]


def test_seed_and_prompt_decide(model: Qwen2ForCausalLM) -> None:
    first, second, third = results(
        [request([3, 4, 5], 1), request([3, 4, 5], 1), request([3, 4, 5], 2)], model
    )
    assert first == second
    assert first != third
    assert not torch.equal(uniforms(request([3], 1)), uniforms(request([4], 1)))


def test_log_probs_are_the_models(model: Qwen2ForCausalLM) -> None:
    one = request([3, 4, 5], 7, temperature=0.7)
    tokens = results([one, request([9], 1)], model)[0]
    with torch.no_grad():
        logits = model(torch.tensor([[3, 4, 5, *tokens]])).logits[0, 2:-1, :VOCABULARY]
    expected = (logits / 0.7).log_softmax(-1)[range(len(tokens)), tokens]
    torch.testing.assert_close(torch.tensor(one.log_probs), expected, atol=1e-4, rtol=0)


def test_temperature_zero_takes_the_most_probable(model: Qwen2ForCausalLM) -> None:
    tokens = results([request([3, 4], 1, temperature=0.0)], model)[0]
    with torch.no_grad():
        logits = model(torch.tensor([[3, 4, *tokens]])).logits[0, 1:-1, :VOCABULARY]
    assert logits.argmax(-1).tolist() == tokens


def test_a_stop_token_ends_its_own_sequence_and_is_kept(model: Qwen2ForCausalLM) -> None:
    free = results(batch(), model)
    stop = free[0][2]
    stopped = batch()
    stopped[0] = request(PROMPTS[0], 0, stop=frozenset([stop]))
    tokens = results(stopped, model)
    assert tokens[0] == free[0][: free[0].index(stop) + 1]
    assert tokens[1:] == free[1:]


def test_an_aborted_request_gets_no_more(model: Qwen2ForCausalLM) -> None:
    requests = batch()
    requests[1].aborted = True
    assert results(requests, model)[1] == []


def rows(count: int, **settings: float) -> list[Request]:
    return [request([1], 0, **settings) for _ in range(count)]


def frequencies(logits: list[float], **settings: float) -> dict[int, float]:
    count = 4000
    draws = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    tokens, _ = sample(torch.tensor([logits] * count), draws, rows(count, **settings))
    return {token: n / count for token, n in sorted(Counter(tokens.tolist()).items())}


def test_tokens_come_as_often_as_their_probability() -> None:
    logits = [math.log(p) for p in (0.5, 0.2, 0.3)]
    expected = {0: 0.5, 1: 0.2, 2: 0.3}
    assert frequencies(logits) == pytest.approx(expected, abs=1e-3)


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    logits = [math.log(p) for p in (0.5, 0.2, 0.3)]
    assert frequencies(logits, top_p=0.4) == {0: 1.0}
    assert frequencies(logits, top_p=0.7) == pytest.approx({0: 0.625, 2: 0.375}, abs=1e-3)


def test_top_k_keeps_the_most_probable() -> None:
    logits = [math.log(p) for p in (0.5, 0.2, 0.3)]
    assert frequencies(logits, top_k=2) == pytest.approx({0: 0.625, 2: 0.375}, abs=1e-3)


def test_impossible_tokens_are_never_drawn() -> None:
    inf = math.inf
    logits = torch.tensor([[-inf, 1.0, -inf, -inf]]).expand(3, 4)
    draws = torch.tensor([0.0, 0.5, 1.0 - 2**-53], dtype=torch.float64)
    tokens, log_probs = sample(logits, draws, rows(3))
    assert tokens.tolist() == [1, 1, 1]
    assert log_probs.tolist() == [0.0, 0.0, 0.0]


def test_seeds_do_not_depend_on_the_process() -> None:
    assert derive_seed(1, "a", [2]) == 8081616232715700933
    assert derive_seed(1, "a", [2]) != derive_seed(1, "a", [3])
