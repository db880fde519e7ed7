"""Token weights by hand-worked numbers, in every layout."""

import math
from typing import Any

import pytest
import torch

from verl_stare.algo import Decision, QuadrantWeights, token_weights, weighted_advantages
from verl_stare.algo.micro_batch import micro_batch_weights
from verl_stare.algo.weights import high_quadrants


def decision(**changes: Any) -> Decision:
    values: dict[str, Any] = {
        "gate_open": True,
        "batch_entropy": 0.2,
        "target_entropy": 0.3,
        "weights": QuadrantWeights(positive_high=1.5),
        "positive_threshold": 2.0,
        "negative_threshold": math.inf,
        "top_fraction": 0.5,
    }
    return Decision(**(values | changes))


SURPRISAL = torch.tensor([[3.0, 2.0, 2.5], [4.0, 5.0, 9.0]])
ADVANTAGES = torch.tensor([[1.0, 1.0, 1.0], [-1.0, -1.0, 0.0]])
MASK = torch.tensor([[1, 1, 0], [1, 1, 0]])
BATCH = (SURPRISAL, ADVANTAGES, MASK)


def test_only_surprising_tokens_of_positive_advantage_are_amplified() -> None:
    weights = token_weights(decision(), *BATCH)
    # 2.0 does not exceed the threshold, 2.5 is masked, the second row is negative.
    assert weights.tolist() == [[1.5, 1.0, 1.0], [1.0, 1.0, 1.0]]


def test_every_quadrant_has_its_weight() -> None:
    everything = decision(weights=QuadrantWeights(1.5, 1.25, 0.5, 0.75), negative_threshold=4.0)
    expected = [[1.5, 1.25, 1.0], [0.75, 0.5, 1.0]]
    assert token_weights(everything, *BATCH).tolist() == expected
    expected = [[1.5, 1.25, 1.0], [-0.75, -0.5, 0.0]]
    assert weighted_advantages(everything, *BATCH).tolist() == expected


def test_a_closed_gate_leaves_every_weight_at_one() -> None:
    closed = decision(gate_open=False)
    assert closed.changes_nothing
    assert (token_weights(closed, *BATCH) == 1).all()
    assert (micro_batch_weights(closed, *BATCH) == 1).all()
    # What would have been selected is still known, for the metrics.
    surprisal, advantages, mask = (tensor.flatten().numpy() for tensor in BATCH)
    assert high_quadrants(closed, surprisal, advantages, mask != 0)[0].sum() == 1


def test_weights_of_one_and_empty_selections_change_nothing() -> None:
    assert decision(weights=QuadrantWeights()).changes_nothing
    assert decision(positive_threshold=math.inf).changes_nothing
    assert not decision(positive_threshold=-math.inf).changes_nothing
    low = QuadrantWeights(negative_low=0.5)
    assert not decision(weights=low).changes_nothing
    assert decision(weights=low, negative_threshold=-math.inf).changes_nothing


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("weights", [QuadrantWeights(2.0), QuadrantWeights(1.0, 2.0)])
def test_tokens_without_a_finite_surprisal_keep_their_advantage(
    bad: float, weights: QuadrantWeights
) -> None:
    surprisal = torch.tensor([bad, 3.0, 1.0])
    ones = torch.ones(3)
    whole = decision(weights=weights, top_fraction=1.0)
    for function in (token_weights, weighted_advantages, micro_batch_weights):
        assert function(whole, surprisal, ones, ones)[0] == 1


def jagged(padded: torch.Tensor) -> torch.Tensor:
    offsets = torch.tensor([0, 2, 4])
    return torch.nested.nested_tensor_from_jagged(padded[:, :2].reshape(-1), offsets=offsets)


def test_jagged_rows_get_jagged_weights() -> None:
    for function in (token_weights, weighted_advantages, micro_batch_weights):
        result = function(decision(), *map(jagged, BATCH))
        assert result.is_nested
        assert result.offsets().tolist() == [0, 2, 4]
    assert token_weights(decision(), *map(jagged, BATCH)).values().tolist() == [1.5, 1, 1, 1]
    assert weighted_advantages(decision(), *map(jagged, BATCH)).values().tolist() == [
        1.5,
        1.0,
        -1.0,
        -1.0,
    ]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_weights_have_the_precision_of_the_advantages(dtype: torch.dtype) -> None:
    advantages = ADVANTAGES.to(dtype)
    assert token_weights(decision(), SURPRISAL, advantages, MASK).dtype == dtype
    weighted = weighted_advantages(decision(), SURPRISAL, advantages, MASK)
    assert weighted.dtype == dtype
    assert weighted.tolist() == [[1.5, 1.0, 1.0], [-1.0, -1.0, 0.0]]


def test_the_base_advantages_are_left_alone() -> None:
    before = ADVANTAGES.clone()
    weighted_advantages(decision(), *BATCH)
    assert torch.equal(ADVANTAGES, before)


def test_weights_have_no_gradient() -> None:
    surprisal = SURPRISAL.clone().requires_grad_()
    assert not token_weights(decision(), surprisal, ADVANTAGES, MASK).requires_grad
    assert not micro_batch_weights(decision(), surprisal, ADVANTAGES, MASK).requires_grad


@pytest.mark.parametrize(
    ("top_fraction", "expected"),
    [
        (0.0, [1, 1, 1, 1, 1]),
        # max(1, ceil(0.1 * 4)) = 1, of equals one.
        (0.1, None),
        (0.5, None),
        (1.0, [2, 2, 2, 2, 1]),
    ],
)
def test_a_micro_batch_selects_exactly_its_share_even_of_equals(
    top_fraction: float, expected: list[float] | None
) -> None:
    surprisal = torch.zeros(5)
    advantages = torch.tensor([1.0, 1.0, 1.0, 1.0, -1.0])
    choice = decision(weights=QuadrantWeights(positive_high=2.0), top_fraction=top_fraction)
    weights = micro_batch_weights(choice, surprisal, advantages, torch.ones(5))
    if expected is None:
        assert int((weights == 2).sum()) == max(1, int(top_fraction * 4))
        assert weights[4] == 1
    else:
        assert weights.tolist() == expected


def test_a_micro_batch_ranks_its_own_tokens_on_both_sides() -> None:
    both = decision(weights=QuadrantWeights(1.5, 1.0, 0.5, 1.0), positive_threshold=100.0)
    # One of two on each side, whatever the batch's thresholds are.
    assert micro_batch_weights(both, *BATCH).tolist() == [[1.5, 1.0, 1.0], [1.0, 0.5, 1.0]]
