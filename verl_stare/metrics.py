"""Every metric of STARE, under `stare/`.

| key | meaning |
|---|---|
| `stare/batch_entropy` | H̄: mean entropy of the response tokens, nats |
| `stare/entropy_above_target` | H̄ - H_tgt, nats: negative while the gate is open |
| `stare/gate_open` | 1 if the batch entropy is below the target, so that the weights act, else 0 |
| `stare/selected_share` | share of the response tokens that are highly surprising, of the signs of advantage that the variant weights, whether the gate is open or not |
| `stare/surprisal_selected` | mean surprisal of those tokens, nats; absent if there is none |
| `stare/surprisal_unselected` | mean surprisal of the other response tokens, nats |
| `stare/token_weight` | mean weight of the response tokens; 1 while the gate is closed |
| `stare/nonfinite_tokens` | response tokens with a non-finite log-prob, entropy or advantage |
| `stare/amplify`, `stare/attenuate` | W, M of this batch; only with `adaptive` |
| `stare/entropy_is_sampled` | 1: H̄ is the mean sampled surprisal; only in bypass mode |

A mean over nothing is left out rather than logged as 0. No key contains `max`, `min`, `sum` or
`total`: verl's reducers would take that instead of the mean. What never changes is not logged.
All of them are of the driver's decision, on the old policy's surprisal. Where the weights are taken in
the actor, verl logs their mean there as `actor/stare_token_weight`.
"""  # noqa: E501 (a table's row is one line)

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from verl_stare.algo.layout import Array, array, chunks, finite_where, nonzero
from verl_stare.algo.weights import Decision, high_quadrants, signed


def compute_metrics(
    decision: Decision,
    *,
    surprisal: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    entropy: Tensor,
) -> dict[str, float]:
    """The metrics of one batch; see the table in this module's docstring.

    Args:
        decision: taken on this batch.
        surprisal, advantages, response_mask, entropy: as `verl_stare.algo.decide` takes them.
    """
    tokens = finite_tokens = nonfinite = high_positive = high_negative = 0
    surprisal_high = surprisal_all = excess = 0.0
    parts = chunks(array(surprisal), array(advantages), array(response_mask), array(entropy))
    for scores, gains, mask, entropies in parts:
        response = nonzero(mask)
        finite = finite_where(scores, response)
        all_finite = finite & finite_where(gains, response) & finite_where(entropies, response)
        positive, negative = high_quadrants(decision, scores, gains, response)
        counts = int(np.count_nonzero(positive)), int(np.count_nonzero(negative))
        tokens += (some := int(np.count_nonzero(response)))
        nonfinite += some - int(np.count_nonzero(all_finite))
        finite_tokens += int(np.count_nonzero(finite))
        high_positive += counts[0]
        high_negative += counts[1]
        surprisal_high += _sum_where(scores, positive | negative)
        surprisal_all += _sum_where(scores, finite)
        excess += _excess(decision, counts, gains, finite)

    chosen = high_positive + high_negative
    metrics = {
        "stare/batch_entropy": decision.batch_entropy,
        "stare/entropy_above_target": decision.batch_entropy - decision.target_entropy,
        "stare/gate_open": float(decision.gate_open),
        "stare/selected_share": _ratio(chosen, tokens),
        "stare/surprisal_selected": _ratio(surprisal_high, chosen),
        "stare/surprisal_unselected": _ratio(
            surprisal_all - surprisal_high, finite_tokens - chosen
        ),
        "stare/token_weight": _ratio(tokens + excess, tokens),
        "stare/nonfinite_tokens": float(nonfinite),
    }
    return {key: value for key, value in metrics.items() if not math.isnan(value)}


def _excess(
    decision: Decision, high_counts: tuple[int, int], advantages: Array, used: Array
) -> float:
    """The sum of ω - 1 over the response tokens."""
    excess = 0.0
    for side, high in zip(decision.sides, high_counts, strict=True):
        if not decision.gate_open or side.changes_nothing:
            continue
        excess += (side.high - 1.0) * high
        if side.low != 1.0:
            side_count = int(np.count_nonzero(signed(advantages, side.sign) & used))
            excess += (side.low - 1.0) * (side_count - high)
    return excess


def _sum_where(values: Array, mask: Array) -> float:
    # For a chunk, single precision loses nothing that a metric shows.
    if mask.all():
        return float(values.sum())
    with np.errstate(invalid="ignore"):
        total = float(np.dot(values, mask.astype(values.dtype)))
    return total if math.isfinite(total) else float(values[mask].sum())


def _ratio(numerator: float, denominator: int) -> float:
    return numerator / denominator if denominator else math.nan
