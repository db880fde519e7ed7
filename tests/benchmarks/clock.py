"""Timing of functions side by side in one process."""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any


def interleaved(
    functions: Mapping[str, Callable[[], Any]], rounds: int, *, fresh_memory: bool
) -> dict[str, float]:
    """Median seconds of each function, called in turn so that all meet the same machine.

    Args:
        functions: by name.
        rounds: timed calls of each, after one that is not timed.
        fresh_memory: give freed memory back to the system before each call, as it is by the time a
            trainer's next step comes; otherwise a call finds the memory of the one before.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(rounds + 1):
        for name, function in functions.items():
            if fresh_memory:
                _give_back_memory()
            start = time.perf_counter()
            function()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in seconds.items()}


def _give_back_memory() -> None:
    gc.collect()
    # glibc only; elsewhere both ways of measuring are one.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
