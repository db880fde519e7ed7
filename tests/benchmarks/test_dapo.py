"""The benchmark of the raw DAPO form makes that form, and measures a run on it."""

from pathlib import Path

import pyarrow.parquet as pq

from tests.benchmarks import dapo
from tests.data_prep.support import EVALUATION, dapo_item, evaluation_item, write_jsonl


def test_a_small_raw_file(tmp_path: Path) -> None:
    real = tmp_path / "real"
    for name in EVALUATION:
        write_jsonl(real / name / "test.jsonl", [evaluation_item(name, 1)])
    rows = [dapo_item(f"What is {n} and {n}?", str(n)) for n in range(5)]
    write_jsonl(real / "dapo_math_17k" / "train.jsonl", rows)
    figures = dapo.measure(real, tmp_path, copies=4, rounds=1)
    raw = pq.read_table(tmp_path / "raw" / "dapo-math-17k.parquet").to_pylist()
    assert len({row["extra_info"]["index"] for row in raw}) == figures["rows"] == 20
    assert {row["prompt"][0]["content"] for row in raw} == {
        row["prompt"][0]["content"] for row in rows
    }
    assert figures["counts"]["copies of another row"] == 15
    assert figures["counts"]["kept"] == 5
    [run] = figures["runs"]
    assert run["processor"] > 0
    assert 2**24 < run["peak_memory"] < 2**34
    assert "copies of another row" in dapo.table(figures)
