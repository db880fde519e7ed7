"""Sums of four one-digit terms as verl parquet files: the offline dataset of the CPU demo.

The questions are reasoning_gym's ``basic_arithmetic`` ("Calculate 4 + 1 + 7 + 10.", terms 0 to
10); nothing is downloaded. Every question appears once over both files, so no test question is
ever trained on. The same options and package versions give the same bytes.
"""

import argparse
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # run as a file: modules are in the checkout, not in this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import reasoning_gym
from tqdm import tqdm

from data_prep.schema import PLACEHOLDER, SCHEMA, Asking, Row, prompt_row
from data_prep.writing import output_folder, versions

DATASET = "basic_arithmetic"
TASK = {
    "min_terms": 4,
    "max_terms": 4,
    "min_digits": 1,
    "max_digits": 1,
    "operators": ["+"],
    "allow_parentheses": False,
    "allow_negation": False,
}
DISTINCT_QUESTIONS = 11**4  # four terms, each 0 to 10

DESCRIPTION = """\
Write train.parquet and test.parquet in verl's schema, and manifest.json beside them.

Each row is one question, "Calculate 4 + 1 + 7 + 10.", with its sum as the ground truth. Questions
come from reasoning_gym's seeded generator, so no network is needed. Test rows are drawn first and
every question is used once: test and train never share one."""

EXAMPLES = f"""\
examples:
  python data_prep/arithmetic.py --out data/arithmetic
  python -m data_prep.arithmetic --out /tmp/tiny --train-size 256 --test-size 16

Files are replaced atomically, the manifest last: where manifest.json is, the run was complete.
There are {DISTINCT_QUESTIONS} distinct questions, which bounds --train-size plus --test-size.
Next step: python recipes/demo/warm_start.py --data data/arithmetic --out models/demo"""


def to_row(item: Mapping[str, Any], index: int, split: str) -> Row:
    """Map one reasoning_gym item (``question``, ``answer``) to one row of verl's schema."""
    return prompt_row(
        item["question"],
        [item["answer"]],
        data_source=f"reasoning_gym/{DATASET}",
        index=index,
        split=split,
        asking=Asking(template=PLACEHOLDER),
    )


def unique_items(seed: int, split: str, seen: set[str]) -> Iterator[dict[str, Any]]:
    """Yield items whose question is not in ``seen``, adding each; endless until all are seen."""
    # reasoning_gym draws item i from Random(seed + i), so neighbouring seeds are the same stream
    # shifted by one: hash the seed and the split into starting points far apart.
    start = random.Random(f"{split}/{seed}").getrandbits(40)
    items = reasoning_gym.create_dataset(DATASET, seed=start, size=2**31, **TASK)
    index = 0
    while len(seen) < DISTINCT_QUESTIONS:
        item = items[index]
        index += 1
        if item["question"] not in seen:
            seen.add(item["question"])
            yield item


def make_splits(seed: int, sizes: Mapping[str, int]) -> dict[str, list[Row]]:
    """Draw ``sizes[split]`` rows for each split, in the order given, without a shared question."""
    if min(sizes.values()) < 1 or sum(sizes.values()) > DISTINCT_QUESTIONS:
        raise ValueError(
            f"sizes must be at least 1 and add up to at most {DISTINCT_QUESTIONS} distinct "
            f"questions, got {dict(sizes)}"
        )
    seen: set[str] = set()
    splits = {}
    for split, size in sizes.items():
        items = unique_items(seed, split, seen)
        bar = tqdm(range(size), desc=f"{split} rows", unit="row")
        splits[split] = [to_row(next(items), index, split) for index in bar]
    return splits


def prepare(
    out: Path, seed: int, train_size: int, test_size: int, row_group_size: int
) -> dict[str, Any]:
    """Write both parquet files and the manifest into ``out``; return the manifest."""
    splits = make_splits(seed, {"test": test_size, "train": train_size})
    with output_folder(out) as folder:
        for split, rows in splits.items():
            folder.write(f"{split}.parquet", rows, SCHEMA, row_group_size)
        manifest = {
            "dataset": f"reasoning_gym/{DATASET}",
            "task": TASK,
            "options": {
                "seed": seed,
                "train_size": train_size,
                "test_size": test_size,
                "row_group_size": row_group_size,
            },
            "versions": versions("reasoning_gym", "pyarrow"),
        }
        return folder.publish(out, manifest)


def main() -> None:
    """Parse the command line and write the dataset."""
    parser = argparse.ArgumentParser(
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--seed", type=int, default=1, help="seed of the questions (default 1)")
    parser.add_argument(
        "--train-size", type=int, default=8192, help="rows of train.parquet (default 8192)"
    )
    parser.add_argument(
        "--test-size", type=int, default=64, help="rows of test.parquet (default 64)"
    )
    parser.add_argument(
        "--row-group-size", type=int, default=512, help="rows a parquet row group (default 512)"
    )
    args = parser.parse_args()
    try:
        manifest = prepare(
            args.out, args.seed, args.train_size, args.test_size, args.row_group_size
        )
    except ValueError as error:
        parser.error(str(error))
    for name, output in manifest["outputs"].items():
        print(f"{args.out / name}: {output['rows']} rows, sha256 {output['sha256'][:12]}")


if __name__ == "__main__":
    main()
