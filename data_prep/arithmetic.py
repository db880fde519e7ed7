"""Sums of four one-digit terms as verl parquet files: the offline dataset of the CPU demo.

The questions are reasoning_gym's ``basic_arithmetic`` ("Calculate 4 + 1 + 7 + 10.", terms 0 to
10); nothing is downloaded. Every question appears once over both files, so no test question is
ever trained on. The same options and package versions give the same bytes.
"""

import argparse
import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import reasoning_gym
from tqdm import tqdm

from verl_stare.files import replace_text, replacing

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

SCHEMA = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("ability", pa.string()),
        ("agent_name", pa.string()),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
        ("extra_info", pa.struct([("index", pa.int64()), ("split", pa.string())])),
    ]
)

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


def to_row(item: Mapping[str, Any], index: int, split: str) -> dict[str, Any]:
    """Map one reasoning_gym item (``question``, ``answer``) to one row of verl's schema."""
    return {
        "data_source": f"reasoning_gym/{DATASET}",
        "prompt": [{"role": "user", "content": item["question"]}],
        "ability": "math",
        "agent_name": "single_turn_agent",
        "reward_model": {"style": "rule", "ground_truth": item["answer"]},
        "extra_info": {"index": index, "split": split},
    }


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


def make_splits(seed: int, sizes: Mapping[str, int]) -> dict[str, list[dict[str, Any]]]:
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


def write_whole(path: Path, write: Callable[[Path], object]) -> str:
    """Call ``write(temporary_path)``, move the file to ``path``, and return its sha256."""
    with replacing(path) as temporary:
        write(temporary)
        return hashlib.sha256(temporary.read_bytes()).hexdigest()


def prepare(
    out: Path, seed: int, train_size: int, test_size: int, row_group_size: int
) -> dict[str, Any]:
    """Write both parquet files and the manifest into ``out``; return the manifest."""
    splits = make_splits(seed, {"test": test_size, "train": train_size})
    out.mkdir(parents=True, exist_ok=True)
    manifest_path = out / "manifest.json"
    manifest_path.unlink(missing_ok=True)  # until the new one is written, the folder is in between
    outputs = {}
    for split, rows in splits.items():
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        digest = write_whole(
            out / f"{split}.parquet",
            lambda path, table=table: pq.write_table(table, path, row_group_size=row_group_size),
        )
        outputs[f"{split}.parquet"] = {"rows": len(rows), "sha256": digest}
    manifest = {
        "dataset": f"reasoning_gym/{DATASET}",
        "task": TASK,
        "options": {
            "seed": seed,
            "train_size": train_size,
            "test_size": test_size,
            "row_group_size": row_group_size,
        },
        "outputs": outputs,
        "versions": {name: version(name) for name in ("reasoning_gym", "pyarrow")},
    }
    replace_text(manifest_path, json.dumps(manifest, indent=2) + "\n")
    return manifest


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
