"""The decision taken once for a batch, and the token weights that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from verl_stare.algo.layout import flat, like
from verl_stare.algo.selection import candidates


@dataclass(frozen=True)
class Decision:
    """What holds for every token of one batch; small and picklable (arXiv 2606.19236 §4.2).

    Attributes:
        gate_open: whether the batch entropy is below the target.
        batch_entropy: H̄, nats: mean over the response tokens; NaN where there is none.
        target_entropy: H_tgt, nats.
        amplify: W, the weight of selected tokens while the gate is open.
        threshold: surprisal (nats) that a positive-advantage token has to exceed.
    """

    gate_open: bool
    batch_entropy: float
    target_entropy: float
    amplify: float
    threshold: float

    @property
    def changes_nothing(self) -> bool:
        """True where every weight is 1, so that the base advantages can stay as they are."""
        return not self.gate_open or self.amplify == 1.0 or self.threshold == math.inf


def selected(
    decision: Decision, surprisal: Tensor, advantages: Tensor, response_mask: Tensor
) -> Tensor:
    """L+: the highly surprising tokens of positive advantage, whether the gate is open or not.

    Args:
        decision: of the batch that the tokens belong to.
        surprisal: nats; advantages, response_mask: the same layout (flat, padded or jagged).

    Returns:
        (elements,), bool, flat.
    """
    scores = flat(surprisal)
    eligible = candidates(scores, flat(advantages), flat(response_mask))
    return eligible & (scores > decision.threshold)


def token_weights(
    decision: Decision, surprisal: Tensor, advantages: Tensor, response_mask: Tensor
) -> Tensor:
    """ω: W on L+ while the gate is open, 1 on every other token (variant O1 of the paper).

    Args:
        decision: of the batch that the tokens belong to.
        surprisal: nats; advantages, response_mask: the same layout (flat, padded or jagged).

    Returns:
        The dtype of `advantages` and the layout of `surprisal`. It is positive everywhere, so the
        weighted advantage keeps its sign.
    """
    weights = torch.ones_like(flat(advantages))
    if not decision.changes_nothing:
        chosen = selected(decision, surprisal, advantages, response_mask)
        weights.masked_fill_(chosen, decision.amplify)
    return like(weights, surprisal)
