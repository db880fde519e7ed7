"""Acting on a batch's advantages between verl's computing and its storing them.

There, surprisal and the final response mask are at hand, so that only the entropy has to be fetched
and nothing has to be stored a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

_follow_up: ContextVar[Callable[[Any], None] | None] = ContextVar("follow_up", default=None)


def followed_up(compute: Callable[..., Any]) -> Callable[..., Any]:
    """verl's `compute_advantage_for_multi_trajectories`, after which the follow-up is called."""

    def compute_and_follow_up(*args: Any, **kwargs: Any) -> Any:
        data = compute(*args, **kwargs)
        follow_up = _follow_up.get()
        if follow_up is not None:
            follow_up(data)
        return data

    return compute_and_follow_up


@contextmanager
def follow_up(action: Callable[[Any], None]) -> Iterator[None]:
    """Call `action` with verl's batch (padded) once advantages are computed inside the block.

    Raises:
        RuntimeError: the block ended without that.
    """
    called = False

    def once(data: Any) -> None:
        nonlocal called
        called = True
        action(data)

    token = _follow_up.set(once)
    try:
        yield
    finally:
        _follow_up.reset(token)
    if not called:
        raise RuntimeError(
            "verl's trainer did not call compute_advantage_for_multi_trajectories: STARE cannot act"
        )


def flatten(padded: Tensor, lengths: Sequence[int]) -> Tensor:
    """The first `lengths[i]` elements of each row i, one after the other: (tokens,)."""
    return torch.cat([row[:length] for row, length in zip(padded, lengths, strict=True)])


def replaced(padded: Tensor, values: Tensor, lengths: Sequence[int]) -> Tensor:
    """A copy of `padded` with the elements that `flatten` took replaced by `values`."""
    result = padded.clone()
    for row, new in zip(result, values.split(list(lengths)), strict=True):
        row[: new.numel()] = new
    return result
