"""Every metric of STARE, under `stare/`.

| key | meaning |
|---|---|
| `stare/batch_entropy` | H̄: mean entropy of the response tokens, nats |
| `stare/entropy_above_target` | H̄ - H_tgt, nats: negative while the gate is open |
| `stare/gate_open` | 1 if the batch entropy is below the target, so that the weights act, else 0 |
| `stare/selected_share` | share of the response tokens in L+, whether the gate is open or not |
| `stare/surprisal_selected` | mean surprisal of the tokens in L+, nats; absent if there is none |
| `stare/surprisal_unselected` | mean surprisal of the other response tokens, nats |
| `stare/token_weight` | mean weight of the response tokens; 1 while the gate is closed |
| `stare/nonfinite_tokens` | response tokens with a non-finite log-prob, entropy or advantage |

A mean over nothing is left out rather than logged as 0. No key contains `max`, `min`, `sum` or
`total`: verl's reducers would take that instead of the mean.
"""

from __future__ import annotations

import torch
from torch import Tensor

from verl_stare.algo.layout import flat
from verl_stare.algo.weights import Decision, selected


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
    scores = flat(surprisal)
    response = flat(response_mask) != 0
    chosen = selected(decision, surprisal, advantages, response_mask)
    finite = torch.isfinite(scores)
    others = response & finite & ~chosen
    all_finite = finite & torch.isfinite(flat(advantages)) & torch.isfinite(flat(entropy))

    tokens = int(response.sum())
    chosen_count = int(chosen.sum())
    gain = 0.0 if decision.changes_nothing else (decision.amplify - 1.0) * chosen_count
    metrics = {
        "stare/batch_entropy": decision.batch_entropy,
        "stare/entropy_above_target": decision.batch_entropy - decision.target_entropy,
        "stare/gate_open": float(decision.gate_open),
        "stare/selected_share": _ratio(chosen_count, tokens),
        "stare/surprisal_selected": _mean(scores[chosen]),
        "stare/surprisal_unselected": _mean(scores[others]),
        "stare/token_weight": _ratio(tokens + gain, tokens),
        "stare/nonfinite_tokens": float((response & ~all_finite).sum()),
    }
    return {key: value for key, value in metrics.items() if value == value}


def _mean(values: Tensor) -> float:
    return _ratio(float(values.double().sum()), values.numel())


def _ratio(numerator: float, denominator: int) -> float:
    return numerator / denominator if denominator else float("nan")
