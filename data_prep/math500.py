"""MATH-500 (HuggingFaceH4/MATH-500), 500 problems with 4 samples each, as test.parquet.

The problems are from the test split of MATH.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file: modules are in the checkout, not in this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from data_prep.command import main
from data_prep.dataset import TEST, Dataset
from data_prep.evaluation import DATA_SOURCES
from data_prep.fields import VERL, Item, first, golds_of, problem_of
from data_prep.schema import Asking, Row, prompt_row


def to_row(item: Item, index: int, split: str, asking: Asking) -> Row:
    """Map ``problem`` and ``answer``."""
    return prompt_row(
        problem_of(item, "problem"),
        golds_of(item, "answer"),
        data_source=DATA_SOURCES["math500"],
        index=index,
        split=split,
        asking=asking,
        id=first(item, "unique_id"),
    )


DATASET = Dataset(
    name="math500",
    hub="HuggingFaceH4/MATH-500",
    files=("*.jsonl",),
    forms=(("problem", "answer"), VERL),
    to_row=to_row,
    splits=(TEST,),
    samples=4,
    rows=(500,),
)


if __name__ == "__main__":
    main("math500", __doc__, DATASET)
