"""One view of flat, padded and jagged tensors: a flat one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def flat(tensor: Tensor) -> Tensor:
    """All elements of `tensor` in one dimension, without a copy where the layout allows it.

    Args:
        tensor: flat (tokens,), padded (batch, response_length) or jagged (batch, j1).
    """
    return tensor.values() if tensor.is_nested else tensor.reshape(-1)


def like(values: Tensor, template: Tensor) -> Tensor:
    """`values` (one per element of `template`) in the layout of `template`."""
    if template.is_nested:
        jagged: Any = template  # offsets() is missing from torch's type stubs
        return torch.nested.nested_tensor_from_jagged(values, offsets=jagged.offsets())
    return values.reshape(template.shape)
