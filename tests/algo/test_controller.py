"""Gate and decision by hand-worked numbers."""

import math

import pytest
import torch

from verl_stare.algo import ControllerState, Decision, QuadrantWeights, decide
from verl_stare.algo.controller import acting_signs, batch_entropy, quadrant_weights
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
    # Three positive tokens, k = 1: 3 is selected, 2 is the next.
    assert decision == Decision(
        gate_open=True,
        batch_entropy=pytest.approx(0.2, abs=1e-6),
        target_entropy=0.3,
        weights=QuadrantWeights(positive_high=1.5),
        positive_threshold=2.5,
        # O1 weights no token of negative advantage.
        negative_threshold=math.inf,
        top_fraction=0.3,
    )


@pytest.mark.parametrize(
    ("settings", "weights", "signs"),
    [
        ({"variant": "O1"}, QuadrantWeights(positive_high=1.5), (True, False)),
        ({"variant": "O4"}, QuadrantWeights(negative_high=0.7), (False, True)),
        ({"variant": "C2"}, QuadrantWeights(1.5, 1.0, 0.7, 1.0), (True, True)),
        (
            {"variant": "custom", "quadrant_weights": {"negative_low": 2.0}},
            QuadrantWeights(negative_low=2.0),
            (False, True),
        ),
    ],
)
def test_variants_are_settings_of_one_weight_a_quadrant(
    settings: dict, weights: QuadrantWeights, signs: tuple[bool, bool]
) -> None:
    config = StareConfig(**settings)
    assert quadrant_weights(config, ControllerState(amplify=1.5, attenuate=0.7)) == weights
    assert acting_signs(config) == signs


def test_each_sign_has_a_threshold_of_its_own() -> None:
    tensors = example()
    tensors["advantages"] = torch.tensor([1.0, 1.0, -1.0, -1.0])
    decision = run(StareConfig(variant="C2", top_fraction=0.3), **tensors)
    assert (decision.positive_threshold, decision.negative_threshold) == (2.0, 5.5)


STEPS = [
    # H_tgt = 0.3, alpha = 0.1, W_max = 1.25, M_min = 0.75: two batches below the target, one at it,
    # one without tokens, three above.
    (0.2, 1.2, 0.8),
    (0.2, 1.25, 0.75),
    (0.3, 1.25, 0.75),
    (NAN, 1.25, 0.75),
    (0.4, 1.15, 0.85),
    (0.4, 1.05, 0.95),
    (0.4, 1.0, 1.0),
]


def test_the_schedule_moves_outwards_below_the_target_and_back_above() -> None:
    config = StareConfig(
        variant="C2",
        adaptive=True,
        alpha=0.1,
        amplify=1.1,
        attenuate=0.9,
        amplify_max=1.25,
        attenuate_min=0.75,
    )
    state = ControllerState.initial(config)
    for entropy, amplify, attenuate in STEPS:
        state = state.next(config, entropy)
        assert state.amplify == pytest.approx(amplify)
        assert state.attenuate == pytest.approx(attenuate)


@pytest.mark.parametrize(
    ("variant", "amplify", "attenuate"), [("O1", 1.2, 0.9), ("O4", 1.1, 0.8), ("C2", 1.2, 0.8)]
)
def test_the_schedule_leaves_alone_what_the_variant_does_not_use(
    variant: str, amplify: float, attenuate: float
) -> None:
    config = StareConfig(variant=variant, adaptive=True, alpha=0.1)
    state = ControllerState.initial(config).next(config, 0.2)
    assert (state.amplify, state.attenuate) == (pytest.approx(amplify), pytest.approx(attenuate))


def test_a_batch_is_weighted_by_the_state_before_it() -> None:
    config = StareConfig(variant="C2", adaptive=True, alpha=0.1)
    decision, state = decide(config, ControllerState.initial(config), **example(0.2))
    assert decision.weights == QuadrantWeights(positive_high=1.1, negative_high=0.9)
    assert (state.amplify, state.attenuate) == (pytest.approx(1.2), pytest.approx(0.8))
    again, _ = decide(config, state, **example(0.2))
    assert again.weights.positive_high == pytest.approx(1.2)


def test_a_decision_survives_being_handed_over_as_plain_values() -> None:
    decision = run(StareConfig(variant="C2", scope="micro_batch"), **example())
    assert Decision.from_mapping(decision.to_mapping()) == decision
    with pytest.raises(KeyError):
        Decision.from_mapping({"gate_open": True})


@pytest.mark.parametrize(
    ("entropy", "target", "gate_open"),
    [(0.25, 0.3, True), (0.35, 0.3, False), (0.5, 0.5, False), (0.0, 0.0, False)],
)
def test_the_gate_is_open_strictly_below_the_target(
    entropy: float, target: float, gate_open: bool
) -> None:
    assert run(StareConfig(target_entropy=target), **example(entropy)).gate_open == gate_open


def test_a_target_of_zero_stays_closed_when_rounding_makes_entropy_negative() -> None:
    assert not run(StareConfig(target_entropy=0.0), **example(-1e-7)).gate_open


def test_entropy_is_the_mean_over_response_tokens() -> None:
    entropy = torch.tensor([[0.5, 1.5, 100.0], [2.5, 100.0, 100.0]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    assert batch_entropy(entropy, mask) == 1.5


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_sum_of_entropies_is_the_same_in_every_order(dtype: torch.dtype) -> None:
    entropy = torch.rand(300_000, generator=torch.Generator().manual_seed(0)).to(dtype) * 3
    mask = torch.ones(300_000)
    means = {
        batch_entropy(entropy[torch.randperm(300_000)], mask),
        batch_entropy(entropy.sort().values, mask),
        batch_entropy(entropy, mask),
    }
    assert len(means) == 1
    assert means.pop() == pytest.approx(float(entropy.double().mean()), abs=1e-6)


def test_entropy_of_no_token_is_nan_and_closes_the_gate() -> None:
    tensors = example()
    tensors["response_mask"] = torch.zeros(4, dtype=torch.long)
    decision = run(StareConfig(target_entropy=5.0), **tensors)
    assert math.isnan(decision.batch_entropy)
    assert not decision.gate_open
    assert decision.positive_threshold == math.inf


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
    # Of the two positive tokens left, 2 is selected and 1 is not.
    assert run(config, **tensors).positive_threshold == 1.5


def test_all_zero_advantages_select_nothing() -> None:
    tensors = example()
    tensors["advantages"] = torch.zeros(4)
    assert run(StareConfig(), **tensors).positive_threshold == math.inf


def test_half_precision_entropies_are_added_exactly() -> None:
    values = torch.full((3_000_000,), 0.25, dtype=torch.float16)
    assert batch_entropy(values, torch.ones_like(values)) == 0.25


def test_tensors_of_different_sizes_are_refused() -> None:
    tensors = example()
    tensors["entropy"] = torch.zeros(5)
    with pytest.raises(ValueError, match="elements: 4, 4, 4, 5"):
        run(StareConfig(), **tensors)
