"""The gate and the schedule: batch and state in, decision and state out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from verl_stare.algo.layout import Array, array, chunks, nonzero
from verl_stare.algo.selection import finite, threshold_of
from verl_stare.algo.weights import Decision, QuadrantWeights, signed
from verl_stare.config import StareConfig

# With 16 added, an entropy in single precision is a multiple of 2^-19 nats, and adding those up in
# double precision is exact (to 10^9 tokens): the same sum in every order, so that no packing or
# permutation of the batch can flip the gate.
_SHIFT = np.float32(16.0)


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

        What the variant does not use stays as it is.

        Args:
            batch_entropy: H̄ of the batch just decided on; NaN (no token) moves nothing.
        """
        if not config.adaptive or math.isnan(batch_entropy):
            return self
        step = config.alpha * float(np.sign(config.target_entropy - batch_entropy))
        amplify = min(max(self.amplify + step, 1.0), config.amplify_max)
        attenuate = min(max(self.attenuate - step, config.attenuate_min), 1.0)
        uses_amplify, uses_attenuate = acting_signs(config)
        return ControllerState(
            amplify=amplify if uses_amplify else self.amplify,
            attenuate=attenuate if uses_attenuate else self.attenuate,
        )


def batch_entropy(entropy: Tensor, response_mask: Tensor) -> float:
    """H̄: mean entropy over the response tokens, the same for every order of the tokens.

    The token mean is what the target is stated in, whatever `loss_agg_mode` the loss uses.

    Args:
        entropy: nats, any layout; non-finite values are left out, each value is rounded to a
            multiple of 2^-19 nats (2e-6).
        response_mask: the same layout, 0 for padding and tool output.

    Returns:
        Nats; NaN if no token counts.
    """
    mean = _ExactMean()
    for values, mask in chunks(_single(entropy), array(response_mask)):
        mean.add(values, nonzero(mask))
    return mean.nats()


class _ExactMean:
    def __init__(self) -> None:
        self._shifted, self._count = 0.0, 0

    def add(self, values: Array, used: Array) -> None:
        if not used.all():
            values = values[used]
        with np.errstate(invalid="ignore"):
            shifted = float((values + _SHIFT).sum(dtype=np.float64))
        if not math.isfinite(shifted):
            self.add(values, np.isfinite(values))
            return
        self._shifted += shifted
        self._count += values.size

    def nats(self) -> float:
        if self._count == 0:
            return math.nan
        # Rounding makes the entropy of a certain token negative at times.
        return max(0.0, self._shifted / self._count - float(_SHIFT))


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
    entropies = _single(entropy)
    if not scores.shape == gains.shape == mask.shape == entropies.shape:
        raise ValueError(
            "surprisal, advantages, response_mask and entropy must share one layout; elements: "
            f"{scores.size}, {gains.size}, {mask.size}, {entropies.size}"
        )
    mean = _ExactMean()
    acting = [sign for sign, acts in zip((1, -1), acting_signs(config), strict=True) if acts]
    candidates: dict[int, list[Array]] = {sign: [] for sign in acting}
    for some_scores, some_gains, some_mask, some_entropies in chunks(
        scores, gains, mask, entropies
    ):
        response = nonzero(some_mask)
        mean.add(some_entropies, response)
        for sign, found in candidates.items():
            found.append(finite(some_scores[signed(some_gains, sign) & response]))
    thresholds = {
        sign: threshold_of(np.concatenate(found), config.top_fraction)
        for sign, found in candidates.items()
        if found
    }
    mean_entropy = mean.nats()
    decision = Decision(
        # A NaN (no token to judge by) compares false: the gate stays closed.
        gate_open=mean_entropy < config.target_entropy,
        batch_entropy=mean_entropy,
        target_entropy=config.target_entropy,
        weights=quadrant_weights(config, state),
        positive_threshold=thresholds.get(1, math.inf),
        negative_threshold=thresholds.get(-1, math.inf),
        top_fraction=config.top_fraction,
        scope=config.scope,
    )
    return decision, state.next(config, mean_entropy)


def _single(entropy: Tensor) -> Array:
    return array(entropy).astype(np.float32, copy=False)


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
