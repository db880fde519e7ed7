"""Token weights by hand-worked numbers, in every layout."""

import math

import torch

from verl_stare.algo import Decision, token_weights
from verl_stare.algo.weights import selected


def decision(**changes: object) -> Decision:
    values: dict[str, object] = {
        "gate_open": True,
        "batch_entropy": 0.2,
        "target_entropy": 0.3,
        "amplify": 1.5,
        "threshold": 2.0,
    }
    return Decision(**(values | changes))  # type: ignore[arg-type]


SURPRISAL = torch.tensor([[3.0, 2.0, 2.5], [4.0, 5.0, 9.0]])
ADVANTAGES = torch.tensor([[1.0, 1.0, 1.0], [-1.0, -1.0, 0.0]])
MASK = torch.tensor([[1, 1, 0], [1, 1, 0]])


def test_only_surprising_tokens_of_positive_advantage_are_amplified() -> None:
    weights = token_weights(decision(), SURPRISAL, ADVANTAGES, MASK)
    # 2.0 does not exceed the threshold, 2.5 is masked, the second row is negative.
    assert weights.tolist() == [[1.5, 1.0, 1.0], [1.0, 1.0, 1.0]]


def test_a_closed_gate_leaves_every_weight_at_one() -> None:
    closed = decision(gate_open=False)
    assert closed.changes_nothing
    assert (token_weights(closed, SURPRISAL, ADVANTAGES, MASK) == 1).all()
    # What would have been selected is still known, for the metrics.
    assert selected(closed, SURPRISAL, ADVANTAGES, MASK).sum() == 1


def test_weights_of_one_and_empty_selections_change_nothing() -> None:
    assert decision(amplify=1.0).changes_nothing
    assert decision(threshold=math.inf).changes_nothing
    assert not decision(threshold=-math.inf).changes_nothing


def test_jagged_rows_get_jagged_weights() -> None:
    offsets = torch.tensor([0, 2, 4])
    jagged = [
        torch.nested.nested_tensor_from_jagged(padded[:, :2].reshape(-1), offsets=offsets)
        for padded in (SURPRISAL, ADVANTAGES, MASK)
    ]
    weights = token_weights(decision(), *jagged)
    assert weights.is_nested
    assert weights.offsets().tolist() == [0, 2, 4]
    assert weights.values().tolist() == [1.5, 1.0, 1.0, 1.0]


def test_weights_have_the_precision_of_the_advantages() -> None:
    weights = token_weights(decision(), SURPRISAL, ADVANTAGES.double(), MASK)
    assert weights.dtype == torch.float64
