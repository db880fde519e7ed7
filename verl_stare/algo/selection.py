"""Which tokens are highly surprising: a threshold over the whole batch (arXiv 2606.19236 §4.1)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from torch import Tensor

from verl_stare.algo.layout import Array, array


def selection_size(count: int, top_fraction: float) -> int:
    """k = max(1, ceil(P * count)) of `count` tokens, and 0 where P or `count` is 0.

    P is taken as the decimal it was written as: in binary floating point 0.07 * 100 exceeds 7, and
    its ceiling would be 8.
    """
    if count == 0 or top_fraction == 0:
        return 0
    return min(count, max(1, math.ceil(Fraction(str(top_fraction)) * count)))


def surprisal_threshold(surprisal: Tensor, top_fraction: float) -> float:
    """The surprisal that a token has to exceed to be among the top P.

    It lies half-way between the k-th and the (k+1)-th largest value, k = `selection_size`, so that
    a token whose surprisal is computed again, and rounded otherwise, stays on its side. Without
    ties exactly k tokens exceed it. A group of equal values that would reach past k stays out as a
    whole: the order of rows never decides. (A collapsed policy has many tokens of surprisal 0.)

    Args:
        surprisal: (tokens,), nats: the candidates of one side of the whole batch. Values that are
            not finite are left out.
        top_fraction: P, in [0, 1].

    Returns:
        Threshold in nats: inf where nothing is to be selected, -inf where everything is.
    """
    return threshold_of(finite(np.array(array(surprisal))), top_fraction)


def finite(values: Array) -> Array:
    """The finite ones of `values`; itself where that is all."""
    # A sum is a cheap way to see that all is finite; one that overflows only costs the look.
    with np.errstate(invalid="ignore", over="ignore"):
        all_finite = math.isfinite(float(values.sum()))
    return values if all_finite else np.compress(np.isfinite(values), values)


def threshold_of(values: Array, top_fraction: float) -> float:
    """`surprisal_threshold` of finite values in an array that may be reordered."""
    size = selection_size(values.size, top_fraction)
    if size == 0:
        return math.inf
    if size == values.size:
        return -math.inf
    place = values.size - size - 1
    values.partition(place)
    below, above = values[place], values[place + 1 :].min()
    middle = values.dtype.type((float(below) + float(above)) / 2)
    # Between neighbouring numbers there is none.
    return float(middle if below < middle < above else below)
