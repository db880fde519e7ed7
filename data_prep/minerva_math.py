"""Minerva Math (math-ai/minervamath), 272 problems with 4 samples each, as test.parquet.

Golds have line ends, e notation and several forms; the unit stands after the box, so it is not
part of a gold. Copies without an answer have the gold in the solution's last box.
"""

import re
import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file: modules are in the checkout, not in this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from data_prep.command import main
from data_prep.dataset import TEST, Dataset
from data_prep.evaluation import DATA_SOURCES
from data_prep.fields import VERL, Item, boxed_gold, first, golds_of, problem_of
from data_prep.schema import Asking, Row, prompt_row
from verl_stare.rewards.boxes import last_boxed

# What a unit after the box is made of: \mathrm{~cm}, {eV}, \AA, ^{-1}, / and blanks.
_UNIT = re.compile(
    r"(?:[~/\s]|(?:\\(?:mathrm|text|operatorname)\s*)?\{[~A-Za-z\s]+\}"
    r"|\\(?:AA|cdot|mu|%)(?![A-Za-z])|\^\{[^{}]*\})+"
)


def to_row(item: Item, index: int, split: str, asking: Asking) -> Row:
    """Map ``question`` and ``answer``, or ``problem`` and a boxed ``solution``."""
    return prompt_row(
        problem_of(item, "question", "problem"),
        _golds(item),
        data_source=DATA_SOURCES["minerva_math"],
        index=index,
        split=split,
        asking=asking,
        id=first(item, "idx", "id"),
        unit=_unit(item),
    )


def _golds(item: Item) -> list[str]:
    answered = "reward_model" in item or item.get("answer") is not None
    return golds_of(item, "answer") if answered else boxed_gold(item, "solution")


def _unit(item: Item) -> str | None:
    """What stands after the box in the solution, up to the end of the formula, if it is a unit."""
    solution = item.get("solution")
    gold = last_boxed(solution) if isinstance(solution, str) else None
    if gold is None:
        return None
    _, _, after = str(solution).rpartition(f"{{{gold}}}")
    match = _UNIT.match(after)
    unit = match[0].strip() if match else ""
    return unit if re.search(r"[A-Za-z]", unit) else None


DATASET = Dataset(
    name="minerva_math",
    hub="math-ai/minervamath",
    files=("*.parquet", "*.jsonl"),
    forms=(("question", "answer"), ("problem", "solution"), VERL),
    to_row=to_row,
    splits=(TEST,),
    samples=4,
    rows=(272,),
)


if __name__ == "__main__":
    main("minerva_math", __doc__, DATASET)
