"""DeepScaleR, Skywork-OR1, Polaris and DAPO-Math-17k as one train.parquet.

The sets overlap each other: of problems that are the same but for white space the first one stays,
in the order DeepScaleR, Skywork-OR1, Polaris, DAPO; where the answers differ, none. data_source
says which set a row is from.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file: modules are in the checkout, not in this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from data_prep import dapo_math
from data_prep.command import main
from data_prep.dataset import Dataset
from data_prep.fields import VERL, Item, first, golds_of, problem_of
from data_prep.schema import Asking, Row, prompt_row


def deepscaler_row(item: Item, index: int, split: str, asking: Asking) -> Row:
    """Map ``problem`` (copies: ``prompt``) and ``answer``."""
    return prompt_row(
        problem_of(item, "problem"),
        golds_of(item, "answer"),
        data_source="deepscaler",
        index=index,
        split=split,
        asking=asking,
        id=first(item, "id"),
    )


def skywork_row(item: Item, index: int, split: str, asking: Asking) -> Row:
    """Map verl's columns; the ground truth is a JSON list, whose entries are alternatives."""
    return prompt_row(
        problem_of(item),
        golds_of(item),
        data_source="skywork_or1",
        index=index,
        split=split,
        asking=asking,
        id=(item.get("extra_info") or {}).get("index"),
    )


def polaris_row(item: Item, index: int, split: str, asking: Asking) -> Row:
    """Map ``problem`` and ``answer``."""
    return prompt_row(
        problem_of(item, "problem"),
        golds_of(item, "answer"),
        data_source="polaris",
        index=index,
        split=split,
        asking=asking,
    )


DATASETS = (
    Dataset(
        name="deepscaler",
        hub="agentica-org/DeepScaleR-Preview-Dataset",
        files=("*.json", "*.parquet"),
        forms=(("problem", "answer"), ("prompt", "answer"), VERL),
        to_row=deepscaler_row,
    ),
    Dataset(
        name="skywork",
        hub="Skywork/Skywork-OR1-RL-Data",
        files=("data/math*",),
        forms=(VERL,),
        to_row=skywork_row,
    ),
    Dataset(
        name="polaris",
        hub="POLARIS-Project/Polaris-Dataset-53K",
        files=("*.parquet", "*.jsonl"),
        forms=(("problem", "answer"),),
        to_row=polaris_row,
    ),
    dapo_math.DATASET,
)


if __name__ == "__main__":
    main("train_mix", __doc__, *DATASETS)
