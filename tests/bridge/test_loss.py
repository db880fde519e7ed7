"""`loss_mode=stare` through verl's own `ppo_loss`, against weighted advantages and `vanilla`."""

import math
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils
from verl.workers.config import FSDPActorConfig
from verl.workers.utils import losses

from verl_stare.algo import ControllerState, Decision, decide, weighted_advantages
from verl_stare.algo.micro_batch import micro_batch_weights
from verl_stare.bridge.loss import DECISION, stare_loss
from verl_stare.config import StareConfig

PROMPT, LENGTHS = 2, [3, 5, 1, 4]


def jagged(values: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    return torch.nested.as_nested_tensor(list(values.split(lengths)), layout=torch.jagged)


def batch(seed: int = 0) -> dict[str, torch.Tensor]:
    """Flat tensors over the response tokens."""
    generator = torch.Generator().manual_seed(seed)
    count = sum(LENGTHS)
    mask = torch.ones(count, dtype=torch.long)
    mask[4] = 0
    return {
        "old_log_probs": -torch.rand(count, generator=generator) * 3,
        "advantages": torch.randn(count, generator=generator),
        "response_mask": mask,
        "entropy": torch.full((count,), 0.1),
    }


def decision_on(tensors: dict[str, torch.Tensor], **settings: Any) -> Decision:
    config = StareConfig(target_entropy=1.0, top_fraction=0.3, **settings)
    surprisal = -tensors["old_log_probs"]
    rest = {name: tensors[name] for name in ("advantages", "response_mask", "entropy")}
    return decide(config, ControllerState.initial(config), surprisal=surprisal, **rest)[0]


def ppo_loss(
    tensors: dict[str, torch.Tensor],
    log_probs: torch.Tensor,
    loss_mode: str,
    decision: Decision | None = None,
    rows: slice = slice(None),
    **settings: Any,
) -> tuple[torch.Tensor, dict[str, Any]]:
    """verl's loss of the rows given, with its sums over the whole batch."""
    config = FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_mini_batch_size=4,
        ppo_micro_batch_size_per_gpu=4,
        policy_loss={"loss_mode": loss_mode},
        **{"clip_ratio_low": 0.2, "clip_ratio_high": 0.28, "clip_ratio_c": 10.0, **settings},
    )
    lengths = LENGTHS[rows]
    starts = [sum(LENGTHS[:i]) for i in range(len(LENGTHS))][rows]

    def select(values: torch.Tensor) -> torch.Tensor:
        parts = [values[s : s + n] for s, n in zip(starts, lengths, strict=True)]
        return torch.nested.as_nested_tensor(parts, layout=torch.jagged)

    fields = {name: select(tensors[name]) for name in ("old_log_probs", "advantages")}
    fields["response_mask"] = select(tensors["response_mask"])
    whole = torch.cat([torch.arange(PROMPT + n) for n in lengths])
    ids = jagged(whole, [PROMPT + n for n in lengths])
    prompts = jagged(torch.zeros(PROMPT * len(lengths), dtype=torch.long), [PROMPT] * len(lengths))
    data = TensorDict(
        {**fields, "input_ids": ids, "prompts": prompts, "responses": fields["response_mask"]},
        batch_size=len(lengths),
    )
    extra: dict[str, Any] = {
        "dp_size": 1,
        "batch_num_tokens": int(tensors["response_mask"].sum()),
        "global_batch_size": len(LENGTHS),
    }
    if decision is not None:
        extra[DECISION] = decision.to_mapping()
    tensordict_utils.assign_non_tensor(data, **extra)
    # The model's log-probs are of the whole sequence; position t is of token t + 1.
    parts = []
    for start, length in zip(starts, lengths, strict=True):
        response = log_probs[start : start + length]
        parts.append(torch.cat([log_probs.new_zeros(PROMPT - 1), response, response.new_zeros(1)]))
    model_output = {"log_probs": torch.nested.as_nested_tensor(parts, layout=torch.jagged)}
    return losses.ppo_loss(config, model_output, data)


def gradient(loss: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(loss, log_probs, retain_graph=True)[0]


VARIANTS = [
    {"variant": "O1", "amplify": 2.0},
    {"variant": "C2", "amplify": 1.5, "attenuate": 0.5},
    {"variant": "O4", "attenuate": 0.25},
    {"variant": "custom", "quadrant_weights": {"positive_low": 0.5, "negative_high": 1.75}},
]


@pytest.mark.parametrize("settings", VARIANTS)
@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-sum"])
def test_on_policy_the_loss_and_its_gradient_are_those_of_weighted_advantages(
    settings: dict[str, Any], aggregation: str
) -> None:
    tensors = batch()
    decision = decision_on(tensors, **settings)
    log_probs = tensors["old_log_probs"].clone().requires_grad_()
    kwargs = {"loss_agg_mode": aggregation}
    ours, metrics = ppo_loss(tensors, log_probs, "stare", decision, **kwargs)
    surprisal = -tensors["old_log_probs"]
    weighted = weighted_advantages(
        decision, surprisal, tensors["advantages"], tensors["response_mask"]
    )
    reference, _ = ppo_loss({**tensors, "advantages": weighted}, log_probs, "vanilla", **kwargs)
    base, _ = ppo_loss(tensors, log_probs, "vanilla", **kwargs)
    torch.testing.assert_close(ours, reference)
    torch.testing.assert_close(gradient(ours, log_probs), gradient(reference, log_probs))
    assert not torch.allclose(gradient(ours, log_probs), gradient(base, log_probs))
    assert float(metrics["actor/stare_token_weight"].aggregate()) != 1.0


def test_off_policy_the_current_surprisal_is_held_against_the_batchs_thresholds() -> None:
    tensors = batch()
    decision = decision_on(tensors, amplify=2.0)
    current = tensors["old_log_probs"] + torch.linspace(-1.5, 1.5, sum(LENGTHS)).roll(5)
    log_probs = current.clone().requires_grad_()
    ours, _ = ppo_loss(tensors, log_probs, "stare", decision)
    ratio = (current - tensors["old_log_probs"]).exp()
    total = 0.0
    used = tensors["response_mask"] != 0
    for rho, advantage, surprisal in zip(
        ratio[used].tolist(), tensors["advantages"][used].tolist(), (-current)[used].tolist(),
        strict=True,
    ):  # fmt: skip
        chosen = advantage > 0 and surprisal > decision.positive_threshold
        surrogate = min(rho * advantage, min(max(rho, 0.8), 1.28) * advantage)
        if advantage < 0:
            surrogate = max(surrogate, 10.0 * advantage)
        total += (2.0 if chosen else 1.0) * surrogate
    assert float(ours) == pytest.approx(-total / int(used.sum()), rel=1e-5)
    old = -tensors["old_log_probs"]
    positive = used & (tensors["advantages"] > 0)
    assert ((old > decision.positive_threshold) & positive).tolist() != (
        (-current > decision.positive_threshold) & positive
    ).tolist()


def test_micro_batches_add_up_to_the_whole() -> None:
    tensors = batch()
    decision = decision_on(tensors, variant="C2", amplify=2.0, attenuate=0.5)
    log_probs = (tensors["old_log_probs"] + 0.05).requires_grad_()
    whole, _ = ppo_loss(tensors, log_probs, "stare", decision)
    for size in (1, 2, 3):
        parts = [
            ppo_loss(tensors, log_probs, "stare", decision, slice(start, start + size))[0]
            for start in range(0, len(LENGTHS), size)
        ]
        torch.testing.assert_close(torch.stack(parts).sum(), whole)


@pytest.mark.parametrize("scope", ["batch", "micro_batch"])
@pytest.mark.parametrize("closed", [True, False])
def test_with_nothing_to_do_it_is_vanilla_bit_for_bit(scope: str, closed: bool) -> None:
    tensors = batch()
    if closed:
        tensors["entropy"].fill_(2.0)
    settings = {"amplify": 2.0 if closed else 1.0, "scope": scope}
    decision = decision_on(tensors, **settings)
    log_probs = (tensors["old_log_probs"] + 0.05).requires_grad_()
    ours, _ = ppo_loss(tensors, log_probs, "stare", decision)
    base, _ = ppo_loss(tensors, log_probs, "vanilla")
    assert torch.equal(ours, base)
    assert torch.equal(gradient(ours, log_probs), gradient(base, log_probs))


def test_the_parity_scope_selects_inside_each_micro_batch() -> None:
    tensors = batch()
    decision = decision_on(tensors, amplify=2.0, scope="micro_batch")
    log_probs = tensors["old_log_probs"].clone().requires_grad_()
    loss, _ = ppo_loss(tensors, log_probs, "stare", decision, slice(0, 2))
    rows = slice(0, sum(LENGTHS[:2]))
    weights = micro_batch_weights(
        decision,
        -tensors["old_log_probs"][rows],
        tensors["advantages"][rows],
        tensors["response_mask"][rows],
    )
    weighted = tensors["advantages"].clone()
    weighted[rows] *= weights
    expected, _ = ppo_loss({**tensors, "advantages": weighted}, log_probs, "vanilla", None,
                           slice(0, 2))  # fmt: skip
    torch.testing.assert_close(loss, expected)
    count = int(((tensors["advantages"][rows] > 0) & (tensors["response_mask"][rows] != 0)).sum())
    assert int((weights == 2).sum()) == math.ceil(0.3 * count)


def test_without_the_drivers_decision_it_raises() -> None:
    tensors = batch()
    log_probs = tensors["old_log_probs"].clone().requires_grad_()
    # A decision of another batch is not left lying about.
    ppo_loss(tensors, log_probs, "stare", decision_on(tensors))
    with pytest.raises(RuntimeError, match="without the driver's decision"):
        ppo_loss(tensors, log_probs, "stare")
    with pytest.raises(RuntimeError, match="without the driver's decision"):
        stare_loss(log_probs, log_probs, log_probs, torch.ones_like(log_probs))


def test_a_micro_batch_of_padding_rows_does_not_lower_the_mean_weight() -> None:
    tensors = batch()
    decision = decision_on(tensors, amplify=2.0)
    tensors["response_mask"][:3] = 0
    log_probs = tensors["old_log_probs"].clone().requires_grad_()
    _, metrics = ppo_loss(tensors, log_probs, "stare", decision, slice(0, 1))
    assert float(metrics["actor/stare_token_weight"].aggregate()) == 1.0
