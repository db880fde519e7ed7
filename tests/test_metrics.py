"""Metrics of a small batch, and that verl's reducers take the mean of each."""

import math

import pytest
import torch

from verl_stare.algo import ControllerState, decide
from verl_stare.config import StareConfig
from verl_stare.metrics import compute_metrics

BATCH = {
    "surprisal": torch.tensor([[4.0, 1.0, 0.0], [2.0, 3.0, 7.0]]),
    "advantages": torch.tensor([[1.0, 1.0, 1.0], [-1.0, -1.0, 0.0]]),
    "response_mask": torch.tensor([[1, 1, 0], [1, 1, 0]]),
    "entropy": torch.tensor([[0.1, 0.2, 9.0], [0.3, 0.4, 9.0]]),
}


def metrics(config: StareConfig, batch: dict[str, torch.Tensor]) -> dict[str, float]:
    decision, _ = decide(config, ControllerState.initial(config), **batch)
    return compute_metrics(decision, **batch)


def test_the_metrics_of_a_small_batch() -> None:
    values = metrics(StareConfig(target_entropy=0.5, top_fraction=0.5, amplify=1.4), BATCH)
    # L+ is the token of surprisal 4; the other response tokens have 1, 2 and 3.
    assert values == {
        "stare/batch_entropy": pytest.approx(0.25, abs=1e-7),
        "stare/entropy_above_target": pytest.approx(-0.25, abs=1e-7),
        "stare/gate_open": 1.0,
        "stare/selected_share": 0.25,
        "stare/surprisal_selected": 4.0,
        "stare/surprisal_unselected": 2.0,
        "stare/token_weight": pytest.approx(1.1),
        "stare/nonfinite_tokens": 0.0,
    }


def test_a_closed_gate_still_says_what_would_be_selected() -> None:
    values = metrics(StareConfig(target_entropy=0.1, top_fraction=0.5, amplify=1.4), BATCH)
    assert values["stare/gate_open"] == 0.0
    assert values["stare/token_weight"] == 1.0
    assert values["stare/selected_share"] == 0.25


def test_metrics_of_both_signs() -> None:
    config = StareConfig(
        target_entropy=0.5, top_fraction=0.5, variant="C2", amplify=1.4, attenuate=0.8
    )
    values = metrics(config, BATCH)
    # L+ is the token of surprisal 4, L- the one of 3; 1 and 2 are left.
    assert values["stare/selected_share"] == 0.5
    assert values["stare/surprisal_selected"] == 3.5
    assert values["stare/surprisal_unselected"] == 1.5
    assert values["stare/token_weight"] == pytest.approx((1.4 + 1 + 0.8 + 1) / 4)


def test_the_mean_weight_counts_low_quadrants() -> None:
    weights = {"positive_low": 2.0, "negative_high": 0.5, "negative_low": 4.0}
    config = StareConfig(
        target_entropy=0.5, top_fraction=0.5, variant="custom", quadrant_weights=weights
    )
    assert metrics(config, BATCH)["stare/token_weight"] == (1 + 2 + 0.5 + 4) / 4


def test_non_finite_response_tokens_are_counted_once_each() -> None:
    batch = {name: tensor.clone().float() for name, tensor in BATCH.items()}
    batch["surprisal"][0, 0] = math.nan
    batch["entropy"][0, 0] = math.inf
    batch["advantages"][1, 0] = math.nan
    batch["surprisal"][0, 2] = math.nan  # masked
    values = metrics(StareConfig(), batch)
    assert values["stare/nonfinite_tokens"] == 2.0
    assert all(math.isfinite(value) for value in values.values())


def test_means_over_nothing_are_left_out() -> None:
    values = metrics(StareConfig(top_fraction=0.0), BATCH)
    assert "stare/surprisal_selected" not in values
    assert values["stare/selected_share"] == 0.0


def test_verls_reducers_average_every_metric() -> None:
    from verl.trainer.ppo.v1.utils import MetricsAggregator
    from verl.utils.metric import reduce_metrics

    values = metrics(StareConfig(top_fraction=0.5), BATCH)
    aggregator = MetricsAggregator()
    for factor in (1.0, 3.0):
        scaled = {key: factor * (index + 1) for index, key in enumerate(values)}
        aggregator.add_step_metrics(scaled, sample_count=4)
    middle = {key: 2.0 * (index + 1) for index, key in enumerate(values)}
    assert aggregator.get_aggregated_metrics() == middle
    assert reduce_metrics({key: [1.0, 3.0] for key in values}) == dict.fromkeys(values, 2.0)
