"""The demo's problems: schema, determinism, and no test question in training."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.trainer import ROOT

SCRIPT = ROOT / "data_prep" / "arithmetic.py"


def prepare(out: Path, *options: str) -> None:
    subprocess.run([sys.executable, str(SCRIPT), "--out", str(out), *options], check=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("data")
    prepare(out, "--seed", "3", "--train-size", "1200", "--test-size", "40")
    return out


def test_every_row_has_verls_schema_and_a_right_answer(folder: Path) -> None:
    for name, size in (("train", 1200), ("test", 40)):
        rows = pq.read_table(folder / f"{name}.parquet").to_pylist()
        assert len(rows) == size
        for index, row in enumerate(rows):
            [message] = row["prompt"]
            numbers = [int(part) for part in message["content"].rstrip(".").split()[1::2]]
            assert row == {
                "data_source": "reasoning_gym/basic_arithmetic",
                "prompt": [{"role": "user", "content": message["content"]}],
                "ability": "math",
                "agent_name": "single_turn_agent",
                "reward_model": {"style": "rule", "ground_truth": str(sum(numbers))},
                "extra_info": {
                    "index": index,
                    "split": name,
                    "id": "",
                    "problem": message["content"],
                    "unit": None,
                    "tolerance": None,
                    "copies": 1,
                    "need_tools_kwargs": False,
                    "tools_kwargs": {"code_interpreter": {"create_kwargs": {"index": index}}},
                },
            }
            assert len(numbers) == 4


def test_no_question_of_the_test_set_is_trained_on(folder: Path) -> None:
    questions = [
        {row["prompt"][0]["content"] for row in pq.read_table(folder / name).to_pylist()}
        for name in ("train.parquet", "test.parquet")
    ]
    assert not questions[0] & questions[1]


def test_the_same_options_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    prepare(tmp_path, "--seed", "3", "--train-size", "1200", "--test-size", "40")
    names = ["train.parquet", "test.parquet"]
    assert [(tmp_path / n).read_bytes() for n in names] == [
        (folder / n).read_bytes() for n in names
    ]
    prepare(tmp_path, "--seed", "4", "--train-size", "1200", "--test-size", "40")
    assert (tmp_path / "train.parquet").read_bytes() != (folder / "train.parquet").read_bytes()


def test_the_manifest_names_what_was_written(folder: Path) -> None:
    text = (folder / "manifest.json").read_text()
    manifest = json.loads(text)
    for name in ("train.parquet", "test.parquet"):
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        assert digest in text
    assert manifest["options"]["seed"] == 3
    assert sorted(path.name for path in folder.iterdir()) == [
        "manifest.json",
        "test.parquet",
        "train.parquet",
    ]


def test_row_groups_are_small(folder: Path) -> None:
    assert pq.ParquetFile(folder / "train.parquet").metadata.row_group(0).num_rows <= 512
