"""The part of verl's V1 trainer that STARE adds: one decision a batch, taken on the driver."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import transfer_queue as tq
import verl
from omegaconf import DictConfig, open_dict

from verl_stare import __version__
from verl_stare.algo import ControllerState, Decision, decide, weighted_advantages
from verl_stare.algo.controller import acting_signs
from verl_stare.bridge import advantages, loss, request, seams, state
from verl_stare.metrics import compute_metrics
from verl_stare.sandbox.tally import TALLY, tool_metrics

logger = logging.getLogger("verl_stare")


class StareMixin:
    """Put in front of any of verl's V1 trainers; inert unless STARE is asked for."""

    config: DictConfig
    global_steps: int

    def __init__(self, config: DictConfig) -> None:
        self._stare = request.read(config)
        # Of the batch at hand: made when its advantages are, used up by the actor's update.
        self._stare_decision: tuple[Decision, ControllerState] | None = None
        if self._stare is not None:
            # Again, for launchers that do not go through verl's validate_config.
            seams.check()
            self._stare_state = ControllerState.initial(self._stare.settings)
            versions = (__version__, verl.__version__)
            logger.info("verl_stare %s is active in verl %s: %s", *versions, self._stare.describe())
            # Trackers record the configuration: with every setting that acts, defaults included.
            with open_dict(config.algorithm):
                config.algorithm[request.NAME] = self._stare.effective()
        super().__init__(config)  # pyright: ignore[reportCallIssue]

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        if self._stare is None:
            return super()._compute_advantage(batch, metrics)  # pyright: ignore
        with ExitStack() as stack:
            if self._stare.in_advantages:
                base = self._stare.settings.base_estimator
                stack.enter_context(request.estimator(self.config, base))
            stack.enter_context(advantages.follow_up(partial(self._decide, batch, metrics)))
            return super()._compute_advantage(batch, metrics)  # pyright: ignore

    def _decide(self, batch: Any, metrics: dict[str, Any], data: Any) -> None:
        """Decide on verl's padded batch, and weight its advantages unless the actor will."""
        assert self._stare is not None
        padded: Any = data.batch
        if self._stare.sampled_entropy:
            lengths = [padded["response_mask"].shape[1]] * len(batch)
            entropy = None
        else:
            entropy = _fetch_entropy(batch)
            lengths = entropy.offsets().diff().tolist()
        response = padded["response_mask"] != 0
        tokens = {
            "surprisal": advantages.flatten(padded["old_log_probs"], lengths).neg_(),
            "advantages": advantages.flatten(padded["advantages"], lengths),
            "response_mask": advantages.flatten(response, lengths),
        }
        if tokens["response_mask"].sum() != response.sum():
            raise RuntimeError("the rows of entropy differ in length from those of response_mask")
        gate_on = tokens["surprisal"] if entropy is None else entropy.values()
        decision, after = decide(self._stare.settings, self._stare_state, **tokens, entropy=gate_on)
        self._stare_decision = (decision, after)
        metrics.update(compute_metrics(decision, **tokens, entropy=gate_on))
        if self._stare.settings.adaptive:
            amplifies, attenuates = acting_signs(self._stare.settings)
            metrics |= {"stare/amplify": self._stare_state.amplify} if amplifies else {}
            metrics |= {"stare/attenuate": self._stare_state.attenuate} if attenuates else {}
        if self._stare.sampled_entropy:
            metrics["stare/entropy_is_sampled"] = 1.0
        if not self._stare.in_actor and not decision.changes_nothing:
            weighted = weighted_advantages(decision, **tokens)
            # `returns` may be the same tensor, and stay as they are.
            padded["advantages"] = advantages.replaced(padded["advantages"], weighted, lengths)

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        if self._stare is not None:
            if self._stare_decision is None:
                raise RuntimeError("verl updates the actor on a batch STARE has not decided on")
            decision, after = self._stare_decision
            if self._stare.in_actor:
                batch.extra_info[loss.DECISION] = decision.to_mapping()
            # The schedule answers to updates of the policy: a critic's warm-up does not move it.
            self._stare_state, self._stare_decision = after, None
        return super()._update_actor(batch, metrics)  # pyright: ignore

    def _compute_metrics(
        self, batch: Any, metrics: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        result = super()._compute_metrics(batch, metrics, *args, **kwargs)  # pyright: ignore
        if self.config.actor_rollout_ref.rollout.multi_turn.get("tool_config_path"):
            metrics.update(tool_metrics(_fetch_tallies(batch)))
        return result

    def _save_checkpoint(self) -> Any:
        # Before verl's own, whose last act is to name this step as the one to resume from.
        if self._stare is not None:
            folder = Path(self.config.trainer.default_local_dir, f"global_step_{self.global_steps}")
            state.save(folder, self.global_steps, self._stare.settings, self._stare_state)
        return super()._save_checkpoint()  # pyright: ignore

    def _load_checkpoint(self) -> Any:
        result = super()._load_checkpoint()  # pyright: ignore
        if self._stare is not None and self.global_steps > 0:
            folder = self._checkpoint_folder()
            self._stare_state = state.load(folder, self.global_steps, self._stare.settings)
        return result

    def _checkpoint_folder(self) -> Path:
        """Where verl has just resumed from."""
        trainer = self.config.trainer
        if trainer.resume_mode == "resume_path":
            return Path(os.getcwd(), trainer.resume_from_path)
        return Path(os.getcwd(), trainer.default_local_dir, f"global_step_{self.global_steps}")


def _fetch_tallies(batch: Any) -> list[dict[str, float]]:
    """What the calls of each trajectory came to, of those of our agent loop."""
    keys = [
        key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding")
    ]
    data: Any = tq.kv_batch_get(
        keys=keys, partition_id=batch.partition_id, select_fields=["extra_fields"]
    )
    rows = list(data["extra_fields"]) if "extra_fields" in data else []
    return [row[TALLY] for row in rows if isinstance(row, dict) and TALLY in row]


def _fetch_entropy(batch: Any) -> Any:
    """(batch, response_length), jagged, nats."""
    data = tq.kv_batch_get(
        keys=batch.keys, partition_id=batch.partition_id, select_fields=["entropy"]
    )
    if "entropy" not in data:
        raise RuntimeError(f"STARE needs the entropy, which verl {verl.__version__} has not stored")
    return data["entropy"]
