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
"""  # noqa: E501 (a table's row is one line)

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from verl_stare.algo.layout import Array, array, nonzero
from verl_stare.algo.weights import Decision, high_quadrants


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
    scores, gains, entropies = array(surprisal), array(advantages), array(entropy)
    response = nonzero(array(response_mask))
    positive, negative = high_quadrants(decision, surprisal, advantages, response_mask)
    chosen = positive | negative
    finite = _finite(scores, response)
    all_finite = finite & _finite(gains, response) & _finite(entropies, response)

    tokens = int(np.count_nonzero(response))
    counts = [int(np.count_nonzero(high)) for high in (positive, negative)]
    chosen_count = counts[0] + counts[1]
    chosen_surprisal = _sum_where(scores, chosen)
    other_surprisal = _sum_where(scores, finite) - chosen_surprisal
    metrics = {
        "stare/batch_entropy": decision.batch_entropy,
        "stare/entropy_above_target": decision.batch_entropy - decision.target_entropy,
        "stare/gate_open": float(decision.gate_open),
        "stare/selected_share": _ratio(chosen_count, tokens),
        "stare/surprisal_selected": _ratio(chosen_surprisal, chosen_count),
        "stare/surprisal_unselected": _ratio(
            other_surprisal, int(np.count_nonzero(finite)) - chosen_count
        ),
        "stare/token_weight": _ratio(tokens + _excess(decision, counts, gains, finite), tokens),
        "stare/nonfinite_tokens": float(tokens - np.count_nonzero(all_finite)),
    }
    return {key: value for key, value in metrics.items() if not math.isnan(value)}


def _excess(decision: Decision, high_counts: list[int], advantages: Array, used: Array) -> float:
    """The sum of ω - 1 over the response tokens."""
    excess = 0.0
    for side, high in zip(decision.sides, high_counts, strict=True):
        if not decision.gate_open or side.changes_nothing:
            continue
        excess += (side.high - 1.0) * high
        if side.low != 1.0:
            signed = advantages > 0 if side.sign > 0 else advantages < 0
            excess += (side.low - 1.0) * (int(np.count_nonzero(signed & used)) - high)
    return excess


def _finite(values: Array, response: Array) -> Array:
    """The response tokens whose value is finite; `response` itself where that is all of them."""
    # One NaN or infinity shows in the sum. One that overflows only costs the look at each.
    with np.errstate(over="ignore", invalid="ignore"):
        return response if math.isfinite(float(values.sum())) else response & np.isfinite(values)


def _sum_where(values: Array, mask: Array) -> float:
    return float((values if mask.all() else values[mask]).sum(dtype=np.float64))


def _ratio(numerator: float, denominator: int) -> float:
    return numerator / denominator if denominator else math.nan
