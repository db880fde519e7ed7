"""AIME 2025 I and II (math-ai/aime25), 30 problems with 32 samples each, as test.parquet.

One gold has a degree sign (336^\\circ) in several copies. The problems are (c) MAA, and some
copies are CC-BY-NC-SA: for evaluation, not to be passed on.
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
        data_source=DATA_SOURCES["aime25"],
        index=index,
        split=split,
        asking=asking,
        id=first(item, "id"),
    )


DATASET = Dataset(
    name="aime25",
    hub="math-ai/aime25",
    files=("*.parquet", "*.jsonl"),
    forms=(("problem", "answer"), VERL),
    to_row=to_row,
    splits=(TEST,),
    samples=32,
    rows=(30,),
)


if __name__ == "__main__":
    main("aime25", __doc__, DATASET)
