"""MATH (DigitalLearningGmbH/MATH-lighteval) as train.parquet and test.parquet.

The gold is the solution's last box. MATH-500 is part of the test split.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file: modules are in the checkout, not in this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from data_prep.command import main
from data_prep.dataset import TEST, TRAIN, Dataset
from data_prep.fields import VERL, Item, boxed_gold, first, golds_of, problem_of
from data_prep.schema import Asking, Row, prompt_row


def to_row(item: Item, index: int, split: str, asking: Asking) -> Row:
    """Map ``problem`` and a boxed ``solution``; copies have the gold in ``answer``."""
    answered = first(item, "reward_model", "answer") is not None or "solution" not in item
    return prompt_row(
        problem_of(item, "problem"),
        golds_of(item, "answer") if answered else boxed_gold(item, "solution"),
        data_source="DigitalLearningGmbH/MATH-lighteval",
        index=index,
        split=split,
        asking=asking,
        id=first(item, "unique_id"),
    )


DATASET = Dataset(
    name="math_train",
    hub="DigitalLearningGmbH/MATH-lighteval",
    files=("*.parquet",),
    forms=(("problem", "solution"), ("problem", "answer"), VERL),
    to_row=to_row,
    splits=(TRAIN, TEST),
)


if __name__ == "__main__":
    main("math_train", __doc__, DATASET)
