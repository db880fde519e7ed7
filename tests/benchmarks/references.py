"""What the driver's arithmetic is measured against."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor


def jagged_prototype(
    surprisal: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    entropy: Tensor,
    *,
    top_fraction: float,
    amplify: float,
) -> Tensor:
    """Weighted advantages in torch alone, by `kthvalue` of the positive tokens.

    Args:
        surprisal, advantages, response_mask, entropy: (tokens,).
    """
    response = response_mask.bool()
    mean_entropy = float(entropy[response].double().mean())
    side = (advantages > 0) & response & surprisal.isfinite()
    values = surprisal[side]
    size = max(1, math.ceil(top_fraction * values.numel()))
    threshold = values.kthvalue(values.numel() - size).values
    weights = torch.ones_like(advantages)
    if mean_entropy < math.inf:
        weights[side & (surprisal > threshold)] = amplify
    return advantages * weights


def padded_selection(
    surprisal: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    *,
    top_fraction: float,
    amplify: float,
) -> Tensor:
    """Weighted advantages by top-k of padded rows, as a first version of it would be written.

    Args:
        surprisal, advantages, response_mask: (sequences, longest).
    """
    side = (advantages > 0) & response_mask.bool()
    count = int(side.sum())
    weights = torch.ones_like(advantages)
    if count:
        size = max(1, math.ceil(top_fraction * count))
        ranked = torch.where(side, surprisal, -math.inf).flatten()
        weights.view(-1)[ranked.topk(size).indices] = amplify
    return advantages * weights


def padded_micro_batches(size: int, *tensors: Tensor, **settings: Any) -> Tensor:
    """`padded_selection` inside each `size` rows."""
    parts = zip(*[tensor.split(size) for tensor in tensors], strict=True)
    return torch.cat([padded_selection(*part, **settings) for part in parts])


def verl_grpo(rewards: Tensor, response_mask: Tensor, group: int) -> Tensor:
    """verl's own group-normalised advantages of padded rows."""
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    index = np.array([row // group for row in range(len(rewards))])
    return compute_grpo_outcome_advantage(rewards, response_mask, index)[0]


def recovered(surprisal: Tensor, advantages: Tensor, lengths: Tensor, rows: int, P: float) -> float:
    """Share of the batch-wide top P of the positive tokens that micro-batches of `rows` select."""

    def selection(part: slice) -> Tensor:
        scores = torch.where(advantages[part] > 0, surprisal[part], -math.inf)
        count = int((advantages[part] > 0).sum())
        chosen = torch.zeros_like(scores, dtype=torch.bool)
        if count:
            chosen[scores.topk(min(count, max(1, math.ceil(P * count)))).indices] = True
        return chosen

    whole = selection(slice(None))
    ends = lengths.cumsum(0).tolist()
    starts = [0, *ends[:-1]]
    parts = [
        selection(slice(starts[first], ends[min(first + rows, len(ends)) - 1]))
        for first in range(0, len(ends), rows)
    ]
    return float((torch.cat(parts) & whole).sum() / whole.sum())
