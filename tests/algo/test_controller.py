"""Gate and decision by hand-worked numbers."""

import math

import pytest
import torch

from verl_stare.algo import ControllerState, Decision, decide
from verl_stare.algo.controller import batch_entropy
from verl_stare.config import StareConfig

NAN = math.nan


def run(config: StareConfig, **tensors: torch.Tensor) -> Decision:
    decision, state = decide(config, ControllerState.initial(config), **tensors)
    assert state == ControllerState.initial(config)
    return decision


def example(entropy: float = 0.2) -> dict[str, torch.Tensor]:
    return {
        "surprisal": torch.tensor([3.0, 1.0, 2.0, 9.0]),
        "advantages": torch.tensor([1.0, 1.0, 1.0, -1.0]),
        "response_mask": torch.ones(4, dtype=torch.long),
        "entropy": torch.full((4,), entropy),
    }


def test_the_decision_of_a_small_batch() -> None:
    decision = run(StareConfig(target_entropy=0.3, top_fraction=0.3, amplify=1.5), **example())
    # Three positive tokens, k = 1: 3 is selected, 2 is the value to exceed.
    assert decision == Decision(
        gate_open=True,
        batch_entropy=pytest.approx(0.2, abs=1e-7),
        target_entropy=0.3,
        amplify=1.5,
        threshold=2.0,
    )


@pytest.mark.parametrize(
    ("entropy", "target", "gate_open"),
    [(0.25, 0.3, True), (0.35, 0.3, False), (0.5, 0.5, False), (0.0, 0.0, False)],
)
def test_the_gate_is_open_strictly_below_the_target(
    entropy: float, target: float, gate_open: bool
) -> None:
    assert run(StareConfig(target_entropy=target), **example(entropy)).gate_open is gate_open


def test_a_target_of_zero_stays_closed_when_rounding_makes_entropy_negative() -> None:
    assert not run(StareConfig(target_entropy=0.0), **example(-1e-7)).gate_open


def test_entropy_is_the_mean_over_response_tokens() -> None:
    entropy = torch.tensor([[0.5, 1.5, 100.0], [2.5, 100.0, 100.0]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    assert batch_entropy(entropy, mask) == 1.5


def test_entropy_of_no_token_is_nan_and_closes_the_gate() -> None:
    tensors = example()
    tensors["response_mask"] = torch.zeros(4, dtype=torch.long)
    decision = run(StareConfig(target_entropy=5.0), **tensors)
    assert math.isnan(decision.batch_entropy)
    assert not decision.gate_open
    assert decision.threshold == math.inf


@pytest.mark.parametrize("bad", [NAN, math.inf, -math.inf])
def test_non_finite_entropies_do_not_move_the_gate(bad: float) -> None:
    tensors = example(0.25)
    tensors["entropy"][1] = bad
    decision = run(StareConfig(target_entropy=0.3), **tensors)
    assert decision.batch_entropy == 0.25
    assert decision.gate_open


@pytest.mark.parametrize("bad", [NAN, math.inf, -math.inf])
def test_non_finite_surprisals_do_not_move_the_threshold(bad: float) -> None:
    tensors = example()
    tensors["surprisal"][0] = bad
    config = StareConfig(top_fraction=0.3)
    # Of the two positive tokens left, 2 is selected and 1 is the value to exceed.
    assert run(config, **tensors).threshold == 1.0


def test_all_zero_advantages_select_nothing() -> None:
    tensors = example()
    tensors["advantages"] = torch.zeros(4)
    assert run(StareConfig(), **tensors).threshold == math.inf


def test_half_precision_entropies_are_added_exactly() -> None:
    values = torch.full((3_000_000,), 0.25, dtype=torch.float16)
    assert batch_entropy(values, torch.ones_like(values)) == 0.25


def test_tensors_of_different_sizes_are_refused() -> None:
    tensors = example()
    tensors["entropy"] = torch.zeros(5)
    with pytest.raises(ValueError, match="elements: 4, 4, 4, 5"):
        run(StareConfig(), **tensors)
