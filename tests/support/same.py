"""Equality of checkpoints, bit for bit."""

from typing import Any

import torch


def same(left: Any, right: Any) -> bool:
    """Whether two trees of dicts, lists and tensors are equal bit for bit."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, torch.Tensor):
        return torch.equal(_local(left), _local(right))
    return left == right


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return getattr(tensor, "_local_tensor", tensor)
