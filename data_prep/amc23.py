"""AMC 12 of 2023 (math-ai/amc23), 40 problems with 32 samples each, as test.parquet.

Golds are floats (27.0).
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
    """Map ``question`` or ``problem``, and ``answer``."""
    return prompt_row(
        problem_of(item, "question", "problem"),
        golds_of(item, "answer"),
        data_source=DATA_SOURCES["amc23"],
        index=index,
        split=split,
        asking=asking,
        id=first(item, "id"),
    )


DATASET = Dataset(
    name="amc23",
    hub="math-ai/amc23",
    files=("*.parquet", "*.jsonl"),
    forms=(("question", "answer"), ("problem", "answer"), VERL),
    to_row=to_row,
    splits=(TEST,),
    samples=32,
    rows=(40,),
)


if __name__ == "__main__":
    main("amc23", __doc__, DATASET)
