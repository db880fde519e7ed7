"""DAPO-Math-17k in the form it is published in, each row a hundred times: time, memory, counts.

    STARE_REAL_DATA=folder python -m tests.benchmarks.dapo [--json OUT] [--copies 100] [--rounds 3]

The folder holds the rows once (dapo_math_17k/*.parquet) and the six evaluation sets
(<name>/test.jsonl). The raw file is made of them first, in the published instruction, every copy
in an order of its own with new uuids, in row groups of a million rows. Then data_prep/dapo_math.py
runs on it, decontamination included, as a process of its own whose time and peak memory are taken.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from data_prep.dapo_math import DATASET
from data_prep.evaluation import DATA_SOURCES
from data_prep.fields import golds_of, problem_of
from data_prep.prompts import WRAPPERS
from data_prep.sources import locate, read
from verl_stare.files import replace_text

ROOT = Path(__file__).resolve().parents[2]
ROW_GROUP = 1 << 20


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--copies", type=int, default=100, help="of each row (default 100)")
    parser.add_argument("--rounds", type=int, default=3, help="runs (default 3)")
    options = parser.parse_args(argv)
    real = os.environ.get("STARE_REAL_DATA")
    if not real:
        print("STARE_REAL_DATA must name a folder with the rows (see --help)", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(real), Path(folder), options.copies, options.rounds)
    print(table(figures))
    if options.json:
        replace_text(options.json, json.dumps(figures, indent=2) + "\n")
        print(f"written to {options.json}")
    return 0


def measure(real: Path, folder: Path, copies: int, rounds: int) -> dict[str, Any]:
    """Make the raw file in `folder`, and run the script on it `rounds` times."""
    for name in DATA_SOURCES:
        out = folder / "eval" / name
        _run([f"{name}.py", "--source", str(real / name / "test.jsonl"), "--out", str(out)])
    raw = folder / "raw" / "dapo-math-17k.parquet"
    raw.parent.mkdir()
    # In a process of its own: a child's peak memory counts that of its parent when it was started.
    maker = get_context("spawn").Process(
        target=write_raw, args=(real / "dapo_math_17k", raw, copies)
    )
    maker.start()
    maker.join()
    rows = pq.read_metadata(raw).num_rows
    command = [
        *("dapo_math.py", "--source", str(raw), "--out", str(folder / "out")),
        *("--against", str(folder / "eval")),
    ]
    runs = [_run(command) for _ in tqdm(range(rounds), desc="runs", unit="run")]
    manifest = json.loads((folder / "out" / "manifest.json").read_text())
    return {
        "rows": rows,
        "bytes": raw.stat().st_size,
        "runs": runs,
        "counts": manifest["counts"]["train"],
        "overlap": manifest["overlap"]["train"],
    }


def write_raw(source: Path, raw: Path, copies: int) -> None:
    """Write the rows of `source`, `copies` times, as they are published."""
    before, after = WRAPPERS[0]
    items = [
        item
        for file in locate(str(source)).files
        for batch in read(file, DATASET.forms)
        for item in (batch.to_pylist() if isinstance(batch, pa.RecordBatch) else batch)
    ]
    once = pa.Table.from_pylist(
        [
            {
                "data_source": "math_dapo",
                "prompt": [{"content": before + problem_of(item) + after, "role": "user"}],
                "ability": "MATH",
                "reward_model": {
                    "ground_truth": golds_of(item)[0],
                    "style": "rule-lighteval/MATH_v2",
                },
            }
            for item in items
        ]
    )
    random = np.random.default_rng(0)
    order = np.concatenate([random.permutation(len(items)) for _ in range(copies)])
    schema = once.schema.append(pa.field("extra_info", pa.struct([("index", pa.string())])))
    with pq.ParquetWriter(raw, schema) as writer:
        for start in tqdm(range(0, len(order), ROW_GROUP), desc="raw file", unit="row group"):
            rows = once.take(order[start : start + ROW_GROUP])
            extra = pa.StructArray.from_arrays([_uuids(random, len(rows))], names=["index"])
            writer.write_table(rows.append_column("extra_info", extra), row_group_size=ROW_GROUP)


def _uuids(random: np.random.Generator, count: int) -> pa.Array:
    text = random.bytes(16 * count).hex()
    parts = (text[at : at + 32] for at in range(0, len(text), 32))
    return pa.array([f"{p[:8]}-{p[8:12]}-{p[12:16]}-{p[16:20]}-{p[20:]}" for p in parts])


def _run(arguments: list[str]) -> dict[str, float]:
    """Run a script of data_prep; seconds of wall clock and processor, peak memory in bytes."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "data_prep" / arguments[0]), *arguments[1:]],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(said.decode().splitlines()[-1])
    return {
        "wall": seconds,
        "processor": usage.ru_utime + usage.ru_stime,
        "peak_memory": usage.ru_maxrss * 1024,
    }


def table(figures: dict[str, Any]) -> str:
    """The figures for people."""
    lines = [
        f"\n{figures['rows']:,} rows, {figures['bytes'] / 1e6:.0f} MB",
        f"{'run':>4}{'wall s':>10}{'processor s':>14}{'peak GiB':>10}",
    ]
    for number, run in enumerate(figures["runs"], 1):
        lines.append(
            f"{number:4}{run['wall']:10.1f}{run['processor']:14.1f}"
            f"{run['peak_memory'] / 2**30:10.2f}"
        )
    counts = dict(figures["counts"])
    for why, count in counts.pop("rejected").items():
        counts[f"rejected: {why}"] = count
    lines += [f"{what:44}{count:12,}" for what, count in counts.items()]
    lines.append("evaluation items found in training:")
    for name, found in figures["overlap"].items():
        lines.append(f"  {name:24}{found['items found in training']:6} of {found['items']}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
