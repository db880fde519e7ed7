"""The gate and the schedule: batch and state in, decision and state out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from verl_stare.algo.layout import Array, array, nonzero
from verl_stare.algo.selection import threshold_of
from verl_stare.algo.weights import Decision, QuadrantWeights
from verl_stare.config import StareConfig

# Entropies are added as whole multiples of 2^-20 nats in double precision, which is exact below
# 2^33 nats: the same sum in every order, so no packing or permutation of the batch can flip the
# gate. 64 nats is the entropy of 10^27 equal choices; at that ceiling it takes 2^27 tokens.
_UNITS_PER_NAT = 2.0**20
_ENTROPY_CEILING = 64.0
_CHUNK = 2**16  # tokens that stay in a core's cache


@dataclass(frozen=True)
class ControllerState:
    """What the controller carries from one batch to the next.

    Attributes:
        amplify, attenuate: W and M of the next batch.
    """

    amplify: float
    attenuate: float

    @classmethod
    def initial(cls, config: StareConfig) -> ControllerState:
        return cls(amplify=config.amplify, attenuate=config.attenuate)

    def next(self, config: StareConfig, batch_entropy: float) -> ControllerState:
        """The schedule, with d = alpha sgn(H_tgt - H̄): W + d in [1, W_max] and M - d in [M_min, 1].

        Args:
            batch_entropy: H̄ of the batch just decided on; NaN (no token) moves nothing.
        """
        if not config.adaptive or math.isnan(batch_entropy):
            return self
        step = config.alpha * float(np.sign(config.target_entropy - batch_entropy))
        return ControllerState(
            amplify=min(max(self.amplify + step, 1.0), config.amplify_max),
            attenuate=min(max(self.attenuate - step, config.attenuate_min), 1.0),
        )


def batch_entropy(entropy: Tensor, response_mask: Tensor) -> float:
    """H̄: mean entropy over the response tokens, the same for every order of the tokens.

    The token mean is what the target is stated in, whatever `loss_agg_mode` the loss uses.

    Args:
        entropy: nats, any layout; non-finite values are left out, each value is rounded to a
            multiple of 2^-20 nats (1e-6).
        response_mask: the same layout, 0 for padding and tool output.

    Returns:
        Nats; NaN if no token counts.
    """
    return _mean_entropy(array(entropy), nonzero(array(response_mask)))


def _mean_entropy(entropy: Array, response: Array) -> float:
    units, count = 0.0, 0
    for start in range(0, entropy.size, _CHUNK):
        values, used = entropy[start : start + _CHUNK], response[start : start + _CHUNK]
        if not used.all():
            values = values[used]
        # Both are NaN if any value is.
        if values.size and not (values.min() > -math.inf and values.max() <= _ENTROPY_CEILING):
            values = values[np.isfinite(values)].clip(max=_ENTROPY_CEILING)
        # Rounding makes the entropy of a certain token negative at times.
        chunk = np.maximum(values, 0)
        chunk *= _UNITS_PER_NAT
        units += float(np.rint(chunk, out=chunk).sum(dtype=np.float64))
        count += values.size
    return units / _UNITS_PER_NAT / count if count else math.nan


def decide(
    config: StareConfig,
    state: ControllerState,
    *,
    surprisal: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    entropy: Tensor,
) -> tuple[Decision, ControllerState]:
    """Take the batch's one decision (arXiv 2606.19236 §4.2).

    Args:
        config: validated settings.
        state: from `ControllerState.initial` or the previous batch.
        surprisal: -log π of the sampled tokens under the old policy, nats.
        advantages: of the base estimator.
        response_mask: 0 for padding and tool output.
        entropy: of the old policy's distribution at each token, nats; the sampled surprisal where
            the entropy is not computed, since its mean estimates the same without bias.
            All four share one layout (flat, padded or jagged) over the whole training batch.

    Returns:
        The decision and the state for the next batch.

    Raises:
        ValueError: the tensors have different numbers of elements.
    """
    scores, gains, mask = array(surprisal), array(advantages), array(response_mask)
    entropies = array(entropy)
    if not scores.shape == gains.shape == mask.shape == entropies.shape:
        raise ValueError(
            "surprisal, advantages, response_mask and entropy must share one layout; elements: "
            f"{scores.size}, {gains.size}, {mask.size}, {entropies.size}"
        )
    response = nonzero(mask)
    weights = quadrant_weights(config, state)
    mean_entropy = _mean_entropy(entropies, response)

    def threshold(side: Array) -> float:
        side &= response
        return threshold_of(scores[side], config.top_fraction)

    positive, negative = acting_signs(config)
    decision = Decision(
        # A NaN (no token to judge by) compares false: the gate stays closed.
        gate_open=mean_entropy < config.target_entropy,
        batch_entropy=mean_entropy,
        target_entropy=config.target_entropy,
        weights=weights,
        positive_threshold=threshold(gains > 0) if positive else math.inf,
        negative_threshold=threshold(gains < 0) if negative else math.inf,
        top_fraction=config.top_fraction,
        scope=config.scope,
    )
    return decision, state.next(config, mean_entropy)


def quadrant_weights(config: StareConfig, state: ControllerState) -> QuadrantWeights:
    """The variant's weights: the named ones are settings of the general form."""
    if config.variant == "custom":
        return QuadrantWeights(**(config.quadrant_weights or {}))
    return QuadrantWeights(
        positive_high=state.amplify if config.variant in ("O1", "C2") else 1.0,
        negative_high=state.attenuate if config.variant in ("C2", "O4") else 1.0,
    )


def acting_signs(config: StareConfig) -> tuple[bool, bool]:
    """Whether the variant weights tokens of positive and of negative advantage."""
    if config.variant == "custom":
        names = config.quadrant_weights or {}
        signs = ("positive", "negative")
        positive, negative = (any(name.startswith(sign) for name in names) for sign in signs)
        return positive, negative
    return config.variant in ("O1", "C2"), config.variant in ("C2", "O4")
