"""Loaded in every process by VERL_USE_EXTERNAL_MODULES: saves what STARE did to each batch.

`$STARE_RECORD/step_<n>.pt` maps a row's place (the same in every run) to its responses, its base
advantages, its mask and its weights.
"""

import os
from pathlib import Path
from typing import Any

import wrapt


def _wrap(module: Any) -> None:
    import torch
    import transfer_queue as tq

    def decide(wrapped: Any, trainer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        meta, _, data = args
        responses = tq.kv_batch_get(
            keys=meta.keys, partition_id=meta.partition_id, select_fields=["responses"]
        )["responses"]
        before = data.batch["advantages"].clone()
        result = wrapped(*args, **kwargs)
        after = data.batch["advantages"]
        rows = {}
        for index, tag in enumerate(meta.tags):
            length = len(responses[index])
            base, weighted = before[index][:length], after[index][:length]
            rows[tag.get("order", meta.keys[index])] = {
                "responses": responses[index].tolist(),
                "log_probs": data.batch["old_log_probs"][index][:length].clone(),
                "base": base.clone(),
                "mask": data.batch["response_mask"][index][:length].clone(),
                "weights": torch.where(base == 0, torch.ones_like(base), weighted / base),
            }
        torch.save(rows, Path(os.environ["STARE_RECORD"]) / f"step_{trainer.global_steps}.pt")
        return result

    wrapt.wrap_function_wrapper(module.StareMixin, "_decide", decide)


if os.environ.get("STARE_RECORD"):
    wrapt.register_post_import_hook(_wrap, "verl_stare.bridge.trainer")
