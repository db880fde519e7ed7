"""Batched sampling with a KV cache, every request from a random stream of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass
class Request:
    """One sequence to generate; `generate` fills `tokens` and `log_probs`.

    Attributes:
        prompt: token ids, at least one.
        new_tokens: the most tokens to generate, >= 1.
        stop: token ids that end the sequence (and are kept).
        seed: of this request's random stream.
        temperature: 0 for the most probable token.
        top_p, top_k: 1 and -1 for no truncation.
        aborted: set from another thread to end the sequence at the next token.
        tokens, log_probs: generated ids, and their log-probs (nats) under the distribution that
            they were drawn from, truncated and at `temperature`.
    """

    prompt: list[int]
    new_tokens: int
    stop: frozenset[int] = frozenset()
    seed: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    aborted: bool = False
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return (
            self.aborted
            or len(self.tokens) >= self.new_tokens
            or bool(self.tokens and self.tokens[-1] in self.stop)
        )


def derive_seed(*parts: object) -> int:
    """A 63-bit seed that depends on every part, in every process alike (unlike `hash`)."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def uniforms(request: Request) -> Tensor:
    """One number in [0, 1) per new token, from the request's seed and prompt: (new_tokens,).

    The prompt takes part so that the turns of one trajectory, which share a seed, differ.
    """
    generator = torch.Generator().manual_seed(derive_seed(request.seed, request.prompt))
    return torch.rand(request.new_tokens, generator=generator, dtype=torch.float64)


@torch.inference_mode()
def generate(model: Any, requests: Sequence[Request], pad_id: int, vocabulary: int) -> None:
    """Sample all `requests` together; the results are written into them.

    What a request samples depends on its seed, its prompt and the model, not on the requests beside
    it, but for the rounding of batched matrix products (about 1e-7 in a log-prob).

    Args:
        model: transformers causal LM in eval mode.
        requests: any number with prompts of any lengths.
        pad_id: token id for left padding.
        vocabulary: ids from here on are never sampled (rows that only pad the embedding).
    """
    # A fixed order of rows keeps the rounding the same from run to run, whoever asked first.
    rows = sorted(requests, key=lambda request: (len(request.prompt), request.prompt, request.seed))
    width = max(len(row.prompt) for row in rows)
    ids = torch.full((len(rows), width), pad_id)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for index, row in enumerate(rows):
        ids[index, width - len(row.prompt) :] = torch.tensor(row.prompt)
        mask[index, width - len(row.prompt) :] = 1
    steps = max(row.new_tokens for row in rows)
    draws = torch.zeros((len(rows), steps), dtype=torch.float64)
    for index, row in enumerate(rows):
        draws[index, : row.new_tokens] = uniforms(row)

    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    cache = None
    for step in range(steps):
        output = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache = output.past_key_values
        logits = output.logits[:, -1].float()
        logits[:, vocabulary:] = float("-inf")
        chosen, log_probs = sample(logits, draws[:, step], rows)
        for row, token, log_prob in zip(rows, chosen.tolist(), log_probs.tolist(), strict=True):
            if not row.done:
                row.tokens.append(token)
                row.log_probs.append(log_prob)
        if all(row.done for row in rows):
            return
        ids = chosen.unsqueeze(1)
        mask = torch.cat([mask, mask.new_ones((len(rows), 1))], dim=1)
        positions = positions[:, -1:] + 1


def sample(logits: Tensor, draws: Tensor, rows: Sequence[Request]) -> tuple[Tensor, Tensor]:
    """Draw one token a row by inverting its cumulative distribution.

    Args:
        logits: (batch, vocabulary), float32.
        draws: (batch,), float64 in [0, 1).
        rows: sampling settings of each row.

    Returns:
        Token ids (batch,) and their log-probs (batch,), nats.
    """
    temperature = torch.tensor([row.temperature for row in rows]).unsqueeze(1)
    greedy = temperature <= 0
    log_probs = (logits / temperature.masked_fill(greedy, 1.0)).log_softmax(-1)
    if any(row.top_p < 1 or 0 < row.top_k < logits.shape[1] for row in rows):
        log_probs = _truncate(log_probs, rows).log_softmax(-1)
    cumulative = log_probs.double().exp().cumsum(-1)
    # Scaled by the last value, which rounding leaves a little off 1. "right" passes over tokens of
    # probability 0, whose cumulative value equals their predecessor's.
    points = draws.unsqueeze(1) * cumulative[:, -1:]
    drawn = torch.searchsorted(cumulative, points, right=True)
    chosen = torch.where(greedy, log_probs.argmax(-1, keepdim=True), drawn)
    return chosen.squeeze(1), log_probs.gather(1, chosen).squeeze(1)


def _truncate(log_probs: Tensor, rows: Sequence[Request]) -> Tensor:
    """-inf for what top-k and then top-p leave out; the most probable token always stays."""
    size = log_probs.shape[1]
    top_k = torch.tensor([row.top_k if row.top_k > 0 else size for row in rows]).unsqueeze(1)
    top_p = torch.tensor([row.top_p for row in rows]).unsqueeze(1)
    ordered, index = log_probs.sort(dim=-1, descending=True, stable=True)
    ordered = ordered.masked_fill(torch.arange(size) >= top_k, float("-inf"))
    probs = ordered.softmax(-1)
    out = (probs.cumsum(-1) - probs) >= top_p
    out[:, 0] = False
    return log_probs.scatter(1, index, ordered.masked_fill(out, float("-inf")))
