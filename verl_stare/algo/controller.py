"""The gate: batch in, decision out, with the controller's state passed through by the caller."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from verl_stare.algo.layout import flat
from verl_stare.algo.selection import candidates, surprisal_threshold
from verl_stare.algo.weights import Decision
from verl_stare.config import StareConfig

# Entropies are added as integers of 2^-30 nats: integer addition gives the same sum in every order,
# so no packing or permutation of the batch can flip the gate. 64 nats is the entropy of 10^27 equal
# choices; with it as the ceiling, a chunk's sum stays far below 2^63.
_UNITS_PER_NAT = 2**30
_ENTROPY_CEILING = 64.0
_CHUNK = 2**20


@dataclass(frozen=True)
class ControllerState:
    """What the controller carries from one batch to the next.

    Attributes:
        amplify: W of the next batch.
    """

    amplify: float

    @classmethod
    def initial(cls, config: StareConfig) -> ControllerState:
        return cls(amplify=config.amplify)


def batch_entropy(entropy: Tensor, response_mask: Tensor) -> float:
    """H̄: mean entropy over the response tokens, the same for every order of the tokens.

    The token mean is what the target is stated in, whatever `loss_agg_mode` the loss uses.

    Args:
        entropy: nats, any layout; non-finite values are left out.
        response_mask: the same layout, 0 for padding and tool output.

    Returns:
        Nats; NaN if no token counts.
    """
    units = 0
    count = 0
    all_values, all_masks = flat(entropy), flat(response_mask)
    for start in range(0, all_values.numel(), _CHUNK):
        values, mask = all_values[start : start + _CHUNK], all_masks[start : start + _CHUNK]
        used = values[(mask != 0) & torch.isfinite(values)].double()
        units += int((used.clamp(0.0, _ENTROPY_CEILING) * _UNITS_PER_NAT).round().long().sum())
        count += used.numel()
    return units / _UNITS_PER_NAT / count if count else float("nan")


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
        entropy: of the old policy's distribution at each token, nats.
            All four share one layout (flat, padded or jagged) over the whole training batch.

    Returns:
        The decision and the state for the next batch.

    Raises:
        ValueError: the tensors have different numbers of elements.
    """
    scores, gains, mask = flat(surprisal), flat(advantages), flat(response_mask)
    if not scores.shape == gains.shape == mask.shape == flat(entropy).shape:
        raise ValueError(
            "surprisal, advantages, response_mask and entropy must share one layout; elements: "
            f"{scores.numel()}, {gains.numel()}, {mask.numel()}, {flat(entropy).numel()}"
        )
    mean_entropy = batch_entropy(entropy, response_mask)
    decision = Decision(
        # A NaN (no token to judge by) compares false: the gate stays closed.
        gate_open=mean_entropy < config.target_entropy,
        batch_entropy=mean_entropy,
        target_entropy=config.target_entropy,
        amplify=state.amplify,
        threshold=surprisal_threshold(scores[candidates(scores, gains, mask)], config.top_fraction),
    )
    return decision, state
