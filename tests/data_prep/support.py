"""Running a script of data_prep in this process, and what it leaves behind."""

import json
import random
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_prep.command import main
from data_prep.dataset import Dataset
from data_prep.schema import Asking

EVALUATION = ("aime24", "aime25", "amc23", "math500", "minerva_math", "olympiadbench")
ASKING = Asking()
DAPO = (
    "Solve the following math problem step by step. The last line of your response should be of "
    "the form Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n",
    '\n\nRemember to put your answer on its own line after "Answer:".',
)


def dataset(name: str) -> Dataset:
    return import_module(f"data_prep.{name}").DATASET


def to_row(name: str, item: dict[str, Any], split: str = "train") -> dict[str, Any]:
    return dataset(name).to_row(item, 7, split, ASKING)


def prepare(name: str, source: Path | str, out: Path, *options: str) -> None:
    arguments = ["--source", str(source), "--out", str(out), *options]
    main(name, "", dataset(name), arguments=arguments)


def fails(name: str, source: Path | str, out: Path, *options: str) -> str | int | None:
    """The error, which is the exit code 1's message, or the code itself."""
    with pytest.raises(SystemExit) as exit:
        prepare(name, source, out, *options)
    return exit.value.code


@dataclass(frozen=True)
class Output:
    folder: Path

    def rows(self, split: str = "train") -> list[dict[str, Any]]:
        return pq.read_table(self.folder / f"{split}.parquet").to_pylist()

    @property
    def manifest(self) -> dict[str, Any]:
        return json.loads((self.folder / "manifest.json").read_text())

    @property
    def bytes(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir())}


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def dapo_item(problem: str, gold: str, index: str = "u-1") -> dict[str, Any]:
    """A row of BytedTsinghua-SIA/DAPO-Math-17k."""
    return {
        "data_source": "math_dapo",
        "prompt": [{"content": DAPO[0] + problem + DAPO[1], "role": "user"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": gold, "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": index},
    }


def evaluation_item(name: str, number: int) -> dict[str, Any]:
    """A made-up row in the columns of the hub's set."""
    draw = random.Random(f"{name} {number}")
    things = ["stones", "ducks", "lamps", "rings", "coins", "maps", "kites", "shells", "bells"]
    counts = ", ".join(f"{draw.randint(2, 99)} {draw.choice(things)}" for _ in range(9))
    problem = f"In a box lie {counts}. In how many ways can Ada take two of a kind?"
    gold = str(10 + number)
    return {
        "aime24": {"id": number, "problem": problem, "solution": f"\\boxed{{0{gold}}}", "url": ""},
        "aime25": {"problem": problem, "answer": gold + "^\\circ", "id": str(number)},
        "amc23": {"id": number, "question": problem, "answer": float(gold), "url": ""},
        "math500": {
            "problem": problem,
            "solution": "",
            "answer": gold,
            "subject": "Algebra",
            "level": 2,
            "unique_id": f"test/algebra/{number}.json",
        },
        "minerva_math": {"question": problem, "answer": gold + "\n"},
        "olympiadbench": {
            "id": number,
            "context": None,
            "question": problem,
            "solution": ["so"],
            "final_answer": [f"${gold}$"],
            "is_multiple_answer": False,
            "unit": None,
            "error": None,
        },
    }[name]


RETOOL_PROMPT = (
    "Solve the following problem step by step. You may write code.\n\n*user question:*\n"
    "What is 6 times 7?\n\nRemember to place the final answer in the last part using the format: \n"
    "<answer>\n\\boxed{'The final answer goes here.'}\n</answer>"
)


def retool_item(solution: str, prompt: str = RETOOL_PROMPT) -> dict[str, Any]:
    """A row of JoeYing/ReTool-SFT."""
    return {
        "messages": [
            {"content": prompt, "role": "user"},
            {"content": solution, "role": "assistant"},
        ]
    }


RETOOL_SOLUTION = (
    "Let me compute it.\n<code>\n```python\nprint(6 * 7)\n```\n</code>\n"
    "<interpreter>\n42\n</interpreter>\nAnd once more.\n"
    "<code>\nx = 6 * 7\nprint(x)\n</code>\n<interpreter>\n42\n</interpreter>\n"
    "So it is 42.\n<answer>\n\\boxed{42}\n</answer>"
)
