"""Reading the rollouts that verl dumps with `trainer.rollout_data_dir`, and their GRPO advantages.

One file a step, `{step}.jsonl`, one JSON line an output: `{"input": prompt, "output": response,
"gts": answer, "score": 1.0, "step": 20, "uid": "{prompt}_{session}_{output}"}`. Both texts are
decoded without special tokens; verl's older trainer (`trainer.use_v1=False`) writes no `uid`.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any


class InputError(Exception):
    """What the user has to change, in one line."""


@dataclass(frozen=True)
class Rollout:
    """A row of the dump.

    Attributes:
        group: what rows of one prompt share.
        session: what the outputs of one rollout share; a rollout can have several, whose last one
            stands for it in the group.
        output_index: place among the outputs of the session.
    """

    prompt: str
    response: str
    score: float
    group: str
    session: str
    output_index: int


def read(path: Path) -> list[Rollout]:
    """Read one file of verl's `trainer.rollout_data_dir`.

    Raises:
        InputError: it is missing or empty, holds more than one step, or a line is not as expected.
    """
    try:
        # Not splitlines(): verl leaves characters such as U+2028 as they are inside a line.
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(f"{path}: {reason}") from None
    rollouts: list[Rollout] = []
    steps: set[str] = set()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{path}:{number}: not JSON: {error}") from None
        rollouts.append(_rollout(row, number, f"{path}:{number}"))
        steps.add(str(row.get("step")))
    if not rollouts:
        raise InputError(f"{path}: no rows")
    if len(steps) > 1:
        raise InputError(f"{path}: rows of {len(steps)} steps; give the file of one")
    return rollouts


def _rollout(row: Any, number: int, place: str) -> Rollout:
    if not isinstance(row, dict):
        raise InputError(f"{place}: not a JSON object")
    for key, kinds in (("input", str), ("output", str), ("score", (int, float))):
        if key not in row:
            raise InputError(f"{place}: no key {key!r}")
        if not isinstance(row[key], kinds) or isinstance(row[key], bool):
            raise InputError(f"{place}: {key!r} has the wrong type: {type(row[key]).__name__}")
    # verl's key: {prompt}_{session}_{output}. Its older trainer writes none.
    parts = str(row.get("uid", "")).rsplit("_", 2)
    known = len(parts) == 3 and parts[2].isdecimal()
    return Rollout(
        prompt=row["input"],
        response=row["output"],
        score=float(row["score"]),
        group=parts[0] if known else row["input"],
        session="_".join(parts[:2]) if known else str(number),
        output_index=int(parts[2]) if known else 0,
    )


def group_advantages(rollouts: Sequence[Rollout]) -> list[float]:
    """GRPO's advantages as verl computes them: (score - mean) / (standard deviation + 1e-6).

    Of several outputs of a session, the last one counts in the group and gives the others its
    advantage. A group of one keeps its score. NaN where the score is not finite; such a row is left
    out of its group.
    """
    last: dict[str, Rollout] = {}
    for rollout in rollouts:
        if rollout.session not in last or last[rollout.session].output_index < rollout.output_index:
            last[rollout.session] = rollout
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for rollout in last.values():
        if math.isfinite(rollout.score):
            scores[rollout.group].append(rollout.score)
    advantages: list[float] = []
    for rollout in rollouts:
        score, group = last[rollout.session].score, scores[rollout.group]
        if not math.isfinite(score):
            advantages.append(math.nan)
        elif len(group) == 1:
            advantages.append(score)
        else:
            advantages.append((score - fmean(group)) / (stdev(group) + 1e-6))
    return advantages
