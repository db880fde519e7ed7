"""Reading the metrics that verl's `file` logger writes, and the figures that sum up a run.

One JSON line a step: `{"step": 3, "data": {"actor/entropy": 0.31, ...}}`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

ENTROPY, SCORE, SECONDS = "actor/entropy", "critic/score/mean", "timing_s/step"
BAND = 0.25


def read(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """The training steps of one run from the logs of its starts, oldest first.

    A run that was resumed from a checkpoint has done some steps twice; the later log holds those
    that the run went on from. A last line that was cut off by a kill is left out.

    Returns:
        `{"step", "data"}` in the order of the steps, those without training metrics left out.
    """
    steps: dict[int, dict[str, Any]] = {}
    for path in paths:
        lines = path.read_text().split("\n")
        for line in lines[:-1]:
            record = json.loads(line)
            # verl writes a value that is not finite as null.
            if record["data"].get(ENTROPY) is not None:
                steps[record["step"]] = record
    return [steps[step] for step in sorted(steps)]


def in_band_fraction(entropy: Sequence[float], target: float) -> float | None:
    """Share of the steps within 25 % of the target, from the first step at or below it on.

    Args:
        entropy: nats, one value a step.
        target: H_tgt, nats.

    Returns:
        Share in [0, 1]; None if the target was never reached.
    """
    first = next((index for index, value in enumerate(entropy) if value <= target), None)
    if first is None:
        return None
    inside = [math.fabs(value - target) <= BAND * target for value in entropy[first:]]
    return fmean(inside)


def summarise(records: Sequence[dict[str, Any]], target: float) -> dict[str, Any]:
    """The figures of one arm: `initial_*` of the first step, `final_*` of the last quarter.

    Args:
        records: from `read`, at least one.
        target: H_tgt, nats.
    """
    entropy = [record["data"][ENTROPY] for record in records]
    score = [record["data"][SCORE] for record in records]
    last = max(1, len(records) // 4)
    return {
        "steps": len(records),
        "initial_entropy": entropy[0],
        "final_entropy": fmean(entropy[-last:]),
        "in_band_fraction": in_band_fraction(entropy, target),
        "initial_score": score[0],
        "final_score": fmean(score[-last:]),
        "seconds_per_step": median(record["data"][SECONDS] for record in records),
    }
