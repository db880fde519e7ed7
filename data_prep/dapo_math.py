"""DAPO-Math-17k (BytedTsinghua-SIA/DAPO-Math-17k) as train.parquet.

The published file has each of 17,917 rows 100 times, wrapped in an instruction, with a uuid for
an index. The cleaned forms (haizhongzheng/DAPO-Math-17K-cleaned, open-r1/DAPO-Math-17k-Processed)
can be read too.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file: modules are in the checkout, not in this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from data_prep.command import main
from data_prep.dataset import Dataset
from data_prep.fields import VERL, Item, golds_of, problem_of
from data_prep.schema import Asking, Row, prompt_row


def to_row(item: Item, index: int, split: str, asking: Asking) -> Row:
    """Map verl's ``prompt`` and ``reward_model``, or ``prompt`` and ``target`` or ``solution``."""
    return prompt_row(
        problem_of(item),
        golds_of(item, "target", "solution"),
        data_source="math_dapo",
        index=index,
        split=split,
        asking=asking,
        id=(item.get("extra_info") or {}).get("index"),
    )


DATASET = Dataset(
    name="dapo_math",
    hub="BytedTsinghua-SIA/DAPO-Math-17k",
    files=("data/*",),
    forms=(VERL, ("prompt", "target"), ("prompt", "solution")),
    to_row=to_row,
)


if __name__ == "__main__":
    main("dapo_math", __doc__, DATASET)
