"""The decision taken once for a batch, and the token weights that follow from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from verl_stare.algo.layout import Array, array, chunks, finite_where, flat, like, nonzero


@dataclass(frozen=True)
class QuadrantWeights:
    """ω of each quadrant: sign of the advantage x high or low surprisal; each > 0.

    High are the top P of the tokens of that sign, low are the others (arXiv 2606.19236 §3).
    """

    positive_high: float = 1.0
    positive_low: float = 1.0
    negative_high: float = 1.0
    negative_low: float = 1.0


class Side(NamedTuple):
    """What a decision says of the tokens of one sign of advantage.

    Attributes:
        sign: 1 or -1.
        threshold: surprisal (nats) that a token has to exceed to be high; inf if none is.
        high, low: weights.
    """

    sign: int
    threshold: float
    high: float
    low: float

    @property
    def changes_nothing(self) -> bool:
        high_is_moot = self.high == 1.0 or self.threshold == math.inf
        return high_is_moot and (self.low == 1.0 or self.threshold == -math.inf)


@dataclass(frozen=True)
class Decision:
    """What holds for every token of one batch; small and picklable (arXiv 2606.19236 §4.2).

    Attributes:
        gate_open: whether the batch entropy is below the target.
        batch_entropy: H̄, nats: mean over the response tokens; NaN where there is none.
        target_entropy: H_tgt, nats.
        weights: while the gate is open.
        positive_threshold, negative_threshold: surprisal (nats) that a token with an advantage of
            that sign has to exceed to be high; inf if none is, or that side is not weighted.
        top_fraction: P, for a selection inside each micro-batch.
        scope: `batch` or `micro_batch`: where the actor's selection is made.
    """

    gate_open: bool
    batch_entropy: float
    target_entropy: float
    weights: QuadrantWeights
    positive_threshold: float
    negative_threshold: float
    top_fraction: float
    scope: str = "batch"

    @property
    def sides(self) -> tuple[Side, Side]:
        w = self.weights
        return (
            Side(1, self.positive_threshold, w.positive_high, w.positive_low),
            Side(-1, self.negative_threshold, w.negative_high, w.negative_low),
        )

    @property
    def changes_nothing(self) -> bool:
        """True where every weight is 1, so that the base advantages can stay as they are."""
        return not self.gate_open or all(side.changes_nothing for side in self.sides)

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, for handing the decision to another process."""
        return asdict(self)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Decision:
        """The inverse of `to_mapping`.

        Raises:
            KeyError: a field is missing.
        """
        given: dict[str, Any] = {field.name: values[field.name] for field in fields(cls)}
        given["weights"] = QuadrantWeights(**given["weights"])
        return cls(**given)


def candidates(
    surprisal: Tensor, advantages: Tensor, response_mask: Tensor, sign: int = 1
) -> Tensor:
    """T+ or T-: the response tokens with an advantage of that sign and a finite surprisal.

    Args:
        surprisal: -log π of the sampled token, nats, any layout made flat: (tokens,).
        advantages: (tokens,), of the base estimator; NaN has no sign.
        response_mask: (tokens,), 0 for padding and tool output.
        sign: 1 or -1.

    Returns:
        (tokens,), bool.
    """
    signed = advantages > 0 if sign > 0 else advantages < 0
    return signed & (response_mask != 0) & torch.isfinite(surprisal)


def token_weights(
    decision: Decision, surprisal: Tensor, advantages: Tensor, response_mask: Tensor
) -> Tensor:
    """ω of every token: its quadrant's weight while the gate is open, 1 elsewhere.

    Args:
        decision: of the batch that the tokens belong to.
        surprisal: nats; advantages, response_mask: the same layout (flat, padded or jagged), on any
            device.

    Returns:
        The dtype of `advantages` and the layout of `surprisal`, without a gradient. It is positive
        everywhere, so the weighted advantage keeps its sign.
    """
    scores, gains, mask = flat(surprisal).detach(), flat(advantages), flat(response_mask)
    weights = torch.ones_like(gains)
    for side in decision.sides if decision.gate_open else ():
        if side.changes_nothing:
            continue
        eligible = candidates(scores, gains, mask, side.sign)
        high = eligible & (scores > side.threshold)
        weights.masked_fill_(high, side.high).masked_fill_(eligible & ~high, side.low)
    return like(weights, surprisal)


def weighted_advantages(
    decision: Decision, surprisal: Tensor, advantages: Tensor, response_mask: Tensor
) -> Tensor:
    """ω Â on the CPU, as `token_weights` times `advantages` but several times as fast.

    Half-precision advantages are weighted in single precision and rounded once.

    Args:
        decision: of the batch that the tokens belong to, one that does change something.
        surprisal: nats; advantages, response_mask: the same layout (flat, padded or jagged).

    Returns:
        A new tensor with the dtype and the layout of `advantages`.
    """
    gains = array(advantages)
    result = np.empty_like(gains)
    for out, *tokens in chunks(result, array(surprisal), gains, array(response_mask)):
        out[:] = 1
        for quadrant, weight in _quadrants(decision, *tokens):
            _set(out, quadrant, weight)
        out *= tokens[1]
    return like(torch.as_tensor(result).to(advantages.dtype), advantages)


def high_quadrants(
    decision: Decision, surprisal: Array, advantages: Array, response: Array
) -> tuple[Array, Array]:
    """L+ and L-: the highly surprising tokens of each sign, whether the gate is open or not.

    Args:
        decision: of the batch that the tokens belong to.
        surprisal: (tokens,), nats; advantages: (tokens,); response: (tokens,), bool.

    Returns:
        Two (tokens,) arrays of bool.
    """
    positive, negative = (
        signed(advantages, side.sign) & response & _above(surprisal, side.threshold)
        for side in decision.sides
    )
    return positive, negative


def _quadrants(
    decision: Decision, surprisal: Array, advantages: Array, response_mask: Array
) -> Iterator[tuple[Array, float]]:
    """The quadrants with a weight other than 1: their tokens (bool) and the weight."""
    response = nonzero(response_mask)
    for side in decision.sides:
        if side.changes_nothing:
            continue
        eligible = signed(advantages, side.sign) & response
        high = _above(surprisal, side.threshold)
        if side.high != 1.0:
            yield eligible & high, side.high
        if side.low != 1.0:
            yield eligible & ~high & np.isfinite(surprisal), side.low


def _set(ones: Array, where: Array, weight: float) -> None:
    """Put `weight` where there is 1 so far."""
    if weight < 0.5:
        ones[where] = weight
        return
    # Thrice as fast, and as exact: ω - 1 is a number of the same precision if ω >= 1/2 (Sterbenz).
    excess = where.astype(ones.dtype)
    excess *= ones.dtype.type(weight) - ones.dtype.type(1)
    ones += excess


def signed(advantages: Array, sign: int) -> Array:
    """Where `advantages` have that sign (NaN has none)."""
    return advantages > 0 if sign > 0 else advantages < 0


def _above(surprisal: Array, threshold: float) -> Array:
    # A token whose log-prob is -inf exceeds every threshold, and is never selected.
    return finite_where(surprisal, surprisal > threshold)
