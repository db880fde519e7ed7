"""Problems of the six evaluation sets, from the folder that STARE_REAL_DATA names, if it does."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from verl_stare.rewards import canonical_gold
from verl_stare.rewards.boxes import last_boxed

VARIABLE = "STARE_REAL_DATA"
SETS = ("aime24", "aime25", "amc23", "math500", "minerva_math", "olympiadbench")


@dataclass(frozen=True)
class Problem:
    data_source: str
    gold: str
    solution: str


def problems() -> dict[str, list[Problem]]:
    """By set; empty if the variable is not set."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return {}
    found = {}
    for name in SETS:
        lines = (Path(folder) / name / "test.jsonl").read_text().splitlines()
        found[name] = [_problem(name, json.loads(line)) for line in lines]
    return found


def _problem(name: str, row: dict) -> Problem:
    solution = row.get("solution", "")
    if isinstance(solution, list):
        solution = "\n".join(solution)
    if name == "minerva_math":
        gold = last_boxed(solution) or ""
    elif name == "olympiadbench":
        gold = ", ".join(row["final_answer"])
    else:
        gold = str(row["answer"])
    return Problem(name, canonical_gold(gold), solution)
