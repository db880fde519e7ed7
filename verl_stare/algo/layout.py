"""One view of flat, padded and jagged tensors: a flat one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]


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


def array(tensor: Tensor) -> Array:
    """`flat` as a NumPy array, which shares memory with a CPU tensor.

    The driver works on NumPy because its comparisons, boolean indexing and partition are several
    times as fast as torch's on a CPU.
    """
    values = flat(tensor).detach().cpu()
    # NumPy has no bfloat16; half precision is slower there, and exact in single.
    return (values.float() if values.dtype in (torch.bfloat16, torch.float16) else values).numpy()


# What a loop over a batch takes at a time: it stays in a core's cache, and no temporary array of
# the size of the batch is needed.
CHUNK = 2**16


def chunks(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Views of `arrays` (tokens,), `CHUNK` tokens at a time."""
    for start in range(0, arrays[0].size, CHUNK):
        yield tuple(values[start : start + CHUNK] for values in arrays)


def finite_where(values: Array, mask: Array) -> Array:
    """Where `mask` holds and `values` are finite; `mask` itself if they all are."""
    # One NaN or infinity shows in the sum of squares. One that overflows only costs a closer look.
    with np.errstate(over="ignore", invalid="ignore"):
        return mask if math.isfinite(float(np.dot(values, values))) else mask & np.isfinite(values)


def nonzero(mask: Array) -> Array:
    """`mask` as booleans, without a copy where it is that already."""
    return mask if mask.dtype == np.bool_ else mask != 0
