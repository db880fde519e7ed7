"""Which tokens are highly surprising: a threshold over the whole batch (arXiv 2606.19236 §4.1)."""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor


def selection_size(count: int, top_fraction: float) -> int:
    """k = max(1, ceil(P * count)) of `count` tokens, and 0 where P or `count` is 0.

    P is taken as the decimal it was written as: in binary floating point 0.07 * 100 exceeds 7, and
    its ceiling would be 8.
    """
    if count == 0 or top_fraction == 0:
        return 0
    return min(count, max(1, math.ceil(Fraction(str(top_fraction)) * count)))


def surprisal_threshold(surprisal: Tensor, top_fraction: float) -> float:
    """The surprisal that a token has to exceed to be among the top P.

    It is the (k+1)-th largest value, k = `selection_size`. Without ties exactly k tokens exceed it;
    a group of equal values that would reach past k stays out as a whole, so the order of rows never
    decides. (A collapsed policy has many tokens of surprisal exactly 0.)

    Args:
        surprisal: (tokens,), nats, finite: the candidates of one side of the whole batch.
        top_fraction: P, in [0, 1].

    Returns:
        Threshold in nats: inf where nothing is to be selected, -inf where everything is.
    """
    count = surprisal.numel()
    size = selection_size(count, top_fraction)
    if size == 0:
        return math.inf
    if size == count:
        return -math.inf
    return float(torch.kthvalue(surprisal, count - size).values)


def candidates(surprisal: Tensor, advantages: Tensor, response_mask: Tensor) -> Tensor:
    """T+: the response tokens of positive advantage whose numbers are finite.

    Args:
        surprisal: -log π of the sampled token, nats, any layout made flat: (tokens,).
        advantages: (tokens,), of the base estimator.
        response_mask: (tokens,), 0 for padding and tool output.

    Returns:
        (tokens,), bool.
    """
    positive = (advantages > 0) & torch.isfinite(advantages)
    return (response_mask != 0) & positive & torch.isfinite(surprisal)
