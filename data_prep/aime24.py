"""AIME 2024 I and II (math-ai/aime24), 30 problems with 32 samples each, as test.parquet.

Copies pad golds with zeros (073). BytedTsinghua-SIA/AIME-2024 has each problem 32 times: the
copies go, __rollout_n__ asks for the samples.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file: modules are in the checkout, not in this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from data_prep.command import main
from data_prep.dataset import TEST, Dataset
from data_prep.evaluation import DATA_SOURCES
from data_prep.fields import VERL, Item, boxed_gold, first, golds_of, problem_of
from data_prep.schema import Asking, Row, prompt_row


def to_row(item: Item, index: int, split: str, asking: Asking) -> Row:
    """Map ``problem`` and ``answer``, or a boxed ``solution``."""
    return prompt_row(
        problem_of(item, "problem", "Problem"),
        _golds(item),
        data_source=DATA_SOURCES["aime24"],
        index=index,
        split=split,
        asking=asking,
        id=first(item, "id", "ID"),
    )


def _golds(item: Item) -> list[str]:
    answered = "reward_model" in item or first(item, "answer", "Answer") is not None
    return golds_of(item, "answer", "Answer") if answered else boxed_gold(item, "solution")


DATASET = Dataset(
    name="aime24",
    hub="math-ai/aime24",
    files=("*.parquet", "*.jsonl"),
    forms=(("problem", "answer"), ("Problem", "Answer"), ("problem", "solution"), VERL),
    to_row=to_row,
    splits=(TEST,),
    samples=32,
    rows=(30,),
)


if __name__ == "__main__":
    main("aime24", __doc__, DATASET)
