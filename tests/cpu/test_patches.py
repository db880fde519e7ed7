"""What the patches of verl do, on stand-ins for its modules."""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from verl_stare.cpu import patches


def test_kept_weights_do_not_follow_the_model() -> None:
    def save(model: Any) -> tuple[dict[str, tuple[Tensor, str]], str]:
        # verl's, in short; `.cpu()` copies nothing here.
        return {name: (value.detach().cpu(), "spec") for name, value in model.items()}, "layout"

    module: Any = ModuleType("fsdp_utils")
    module.fsdp2_sharded_save_to_cpu = save
    patches._copies_of_weights(module)
    model = {"w": torch.ones(2)}
    kept, layout = module.fsdp2_sharded_save_to_cpu(model)
    model["w"] += 1
    assert kept["w"][0].tolist() == [1, 1]
    assert (kept["w"][1], layout) == ("spec", "layout")
