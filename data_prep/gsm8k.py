"""GSM8K (openai/gsm8k, configuration main) as train.parquet and test.parquet.

The gold is what follows #### in the answer; its thousands separators go.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file: modules are in the checkout, not in this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from data_prep.command import main
from data_prep.dataset import TEST, TRAIN, Dataset
from data_prep.fields import VERL, Item, golds_of, problem_of
from data_prep.schema import Asking, Rejected, Row, prompt_row


def to_row(item: Item, index: int, split: str, asking: Asking) -> Row:
    """Map ``question`` and ``answer``, a worked solution that ends in ``#### gold``."""
    if "reward_model" in item:
        golds = golds_of(item)
    else:
        _, mark, gold = str(item.get("answer") or "").rpartition("####")
        if not mark:
            raise Rejected("no #### in the answer")
        golds = [gold]
    return prompt_row(
        problem_of(item, "question"),
        golds,
        data_source="openai/gsm8k",
        index=index,
        split=split,
        asking=asking,
    )


DATASET = Dataset(
    name="gsm8k",
    hub="openai/gsm8k",
    files=("main/*",),
    forms=(("question", "answer"), VERL),
    to_row=to_row,
    splits=(TRAIN, TEST),
)

if __name__ == "__main__":
    main("gsm8k", __doc__, DATASET)
