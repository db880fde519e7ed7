"""`loss_mode=stare`: verl's clipped surrogate with weights from the current policy's surprisal.

The driver's decision travels as non-tensor data of the batch to the workers, FSDP's and Megatron's
alike. `ppo_loss` sees it there; the registered policy loss, whose arguments verl fixes, does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from torch import Tensor

from verl_stare.algo import Decision, token_weights
from verl_stare.algo.micro_batch import micro_batch_weights

# Key of the decision in the batch's non-tensor data.
DECISION = "stare_decision"

_handed: ContextVar[Mapping[str, Any] | None] = ContextVar("stare_decision", default=None)


def with_decision(ppo_loss: Callable[..., Any]) -> Callable[..., Any]:
    """verl's `ppo_loss`, during which the batch's decision is at hand for `stare_loss`."""

    def ppo_loss_with_decision(
        config: Any, model_output: Any, data: Any, dp_group: Any = None
    ) -> Any:
        from verl.utils import tensordict_utils

        decision = tensordict_utils.get_non_tensor_data(data=data, key=DECISION, default=None)
        token = _handed.set(decision)
        try:
            return ppo_loss(config, model_output, data, dp_group)
        finally:
            _handed.reset(token)

    return ppo_loss_with_decision


def stare_loss(
    old_log_prob: Tensor,
    log_prob: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    loss_agg_mode: str = "token-mean",
    config: Any = None,
    rollout_is_weights: Tensor | None = None,
) -> tuple[Tensor, dict[str, Any]]:
    """The dual-clipped surrogate J = mean(ω min(rÂ, clip(r)Â)) (arXiv 2606.19236 §4.2).

    ω > 0, so weighting the advantages is weighting the surrogate, and verl's own function does the
    rest.

    Args:
        old_log_prob, log_prob, advantages, response_mask, rollout_is_weights: one micro-batch,
            (micro_batch, response_length).
        loss_agg_mode, config: as in verl.

    Returns:
        Loss and verl's metrics, with the mean weight `stare_token_weight`.

    Raises:
        RuntimeError: the driver's decision did not arrive.
    """
    from verl.trainer.ppo.core_algos import get_policy_loss_fn

    handed = _handed.get()
    if handed is None:
        raise RuntimeError(
            "loss_mode=stare without the driver's decision for this batch: the trainer is not one "
            "of verl's V1 trainers with STARE's mixin, and a micro-batch cannot decide by itself"
        )
    decision = Decision.from_mapping(handed)
    weigh = micro_batch_weights if decision.scope == "micro_batch" else token_weights
    weights = weigh(decision, -log_prob.detach(), advantages, response_mask)
    vanilla: Any = get_policy_loss_fn("vanilla")
    loss, metrics = vanilla(
        old_log_prob=old_log_prob,
        log_prob=log_prob,
        advantages=advantages * weights,
        response_mask=response_mask,
        loss_agg_mode=loss_agg_mode,
        config=config,
        rollout_is_weights=rollout_is_weights,
    )
    response = response_mask != 0
    # 1 for a micro-batch of padding rows, since verl's mean counts micro-batches alike.
    mean_weight = 1 + ((weights - 1) * response).sum() / response.sum().clamp(min=1)
    return loss, {**metrics, "actor/stare_token_weight": mean_weight.item()}
