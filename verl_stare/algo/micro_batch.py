"""Selection inside each micro-batch, for comparison with the authors' released code.

The set then depends on the micro-batch size, on dynamic batching and on the number of ranks; the
default scope, the whole batch, does not.
"""

from __future__ import annotations

import torch
from torch import Tensor

from verl_stare.algo.layout import flat, like
from verl_stare.algo.selection import selection_size
from verl_stare.algo.weights import Decision, candidates


def micro_batch_weights(
    decision: Decision, surprisal: Tensor, advantages: Tensor, response_mask: Tensor
) -> Tensor:
    """ω with the top P taken among the tokens given: exactly min(n, max(1, ceil(P n))) of n a side.

    Which of equally surprising tokens are taken is left to `torch.topk`.

    Args:
        decision: of the batch: its gate, its weights and its P; its thresholds play no part.
        surprisal: of the current policy, nats; advantages, response_mask: the same layout (flat,
            padded or jagged), of one micro-batch.

    Returns:
        As `verl_stare.algo.token_weights`.
    """
    scores, gains, mask = flat(surprisal).detach(), flat(advantages), flat(response_mask)
    weights = torch.ones_like(gains)
    for side in decision.sides if decision.gate_open else ():
        eligible = candidates(scores, gains, mask, side.sign)
        size = selection_size(int(eligible.sum()), decision.top_fraction)
        ranked = scores.masked_fill(~eligible, float("-inf"))
        high = torch.zeros_like(eligible)
        high[ranked.topk(size).indices] = True
        weights.masked_fill_(high, side.high).masked_fill_(eligible & ~high, side.low)
    return like(weights, surprisal)
