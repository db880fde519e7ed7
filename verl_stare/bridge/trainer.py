"""The part of verl's V1 trainer that STARE adds: reweight once per batch, on the driver."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transfer_queue as tq
import verl
from omegaconf import DictConfig
from tensordict import TensorDict

from verl_stare import __version__
from verl_stare.algo import ControllerState, decide, token_weights
from verl_stare.algo.layout import flat, like
from verl_stare.bridge import request, seams
from verl_stare.metrics import compute_metrics

logger = logging.getLogger("verl_stare")

BASE_ESTIMATOR = "grpo"
_FIELDS = ["advantages", "response_mask", "old_log_probs", "entropy"]


class StareMixin:
    """Put in front of any of verl's V1 trainers; inert unless `algorithm.adv_estimator=stare`."""

    config: DictConfig

    def __init__(self, config: DictConfig) -> None:
        self._stare = request.settings(config)
        if self._stare is not None:
            # Again, for launchers that do not go through verl's validate_config.
            seams.check()
            self._stare_state = ControllerState.initial(self._stare)
            logger.info(
                "verl_stare %s is active in verl %s over %s: %s",
                __version__,
                verl.__version__,
                BASE_ESTIMATOR,
                self._stare,
            )
        super().__init__(config)  # pyright: ignore[reportCallIssue]

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        if self._stare is None:
            return super()._compute_advantage(batch, metrics)  # pyright: ignore
        with _estimator(self.config, BASE_ESTIMATOR):
            batch = super()._compute_advantage(batch, metrics)  # pyright: ignore
        return self._reweight(batch, metrics)

    def _reweight(self, batch: Any, metrics: dict[str, Any]) -> Any:
        assert self._stare is not None
        # verl has written the final mask by now: rollout correction may have rejected tokens.
        data = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=_FIELDS
        )
        _check_layout(data)
        advantages = data["advantages"]
        tokens = {
            "surprisal": -flat(data["old_log_probs"]),
            "advantages": flat(advantages),
            "response_mask": flat(data["response_mask"]),
        }
        entropy = flat(data["entropy"])
        decision, self._stare_state = decide(
            self._stare, self._stare_state, **tokens, entropy=entropy
        )
        metrics.update(compute_metrics(decision, **tokens, entropy=entropy))
        if decision.changes_nothing:
            return batch
        weighted = tokens["advantages"] * token_weights(decision, **tokens)
        fields = TensorDict({"advantages": like(weighted, advantages)}, batch_size=len(batch))
        return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)


@contextmanager
def _estimator(config: DictConfig, name: str) -> Iterator[None]:
    """Let verl compute estimator `name` itself, multi-trajectory handling included.

    The configuration is put back at once, so that trackers and checkpoints show what was asked for.
    """
    asked = config.algorithm.adv_estimator
    config.algorithm.adv_estimator = name
    try:
        yield
    finally:
        config.algorithm.adv_estimator = asked


def _check_layout(data: TensorDict) -> None:
    """Raise RuntimeError unless all fields hold the same tokens in the same places."""
    missing = [field for field in _FIELDS if field not in data]
    if missing:
        raise RuntimeError(f"STARE needs {missing}, which verl {verl.__version__} has not stored")
    for field in _FIELDS[1:]:
        if not torch.equal(_row_ends(data[field]), _row_ends(data["advantages"])):
            raise RuntimeError(f"the rows of {field} differ in length from those of advantages")


def _row_ends(tensor: Any) -> torch.Tensor:
    return tensor.offsets() if tensor.is_nested else torch.tensor(tensor.shape)
