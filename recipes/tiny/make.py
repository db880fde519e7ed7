"""A tiny model and data for TINY=1: what a recipe needs to run through on a CPU in a minute.

math   a model that gets some sums right, from the demo's supervised warm start
tool   a model that calls the Python tool for a sum
sft    the same before it has learned anything, and conversations to learn from
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

if (
    __name__ == "__main__"
):  # run as a file: some modules are beside this folder, some in the checkout
    sys.path += [
        str(Path(__file__).resolve().parents[n] / part) for n, part in ((1, "demo"), (2, ""))
    ]

import pyarrow as pa
import pyarrow.parquet as pq
import torch

import tool_policy
import warm_start
from data_prep import retool_sft
from data_prep.schema import SAMPLES, TOOL, extra_info
from tiny_model import build_model
from verl_stare.files import replace_text

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ("math", "tool", "sft")
TRAIN, TEST = 512, 16
MATH_STEPS = 600
DONE = "done"


def make(family: str, out: Path) -> None:
    """Write `model`, `train.parquet` and `test.parquet` into `out`, unless that was done before.

    Args:
        family: one of FAMILIES.
        out: folder of this family.
    """
    if (out / DONE).exists():
        return
    out.mkdir(parents=True, exist_ok=True)
    script = ROOT / "data_prep" / "arithmetic.py"
    sizes = ("--train-size", str(TRAIN), "--test-size", str(TEST))
    command = [sys.executable, str(script), "--out", str(out / "plain"), *sizes]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if family == "math":
        warm_start.warm_start(
            out / "plain", out / "model", seed=1, steps=MATH_STEPS, noise=warm_start.NOISE
        )
    else:
        questions = _questions(out / "plain" / "train.parquet")
        tokenizer = tool_policy.build_tokenizer(questions)
        model = build_model(tokenizer, 1)
        if family == "tool":
            tool_policy.train(model, tokenizer, questions, tool_policy.STEPS, 1)
        model.save_pretrained(out / "model")
        tokenizer.save_pretrained(out / "model")
    for split in ("train", "test"):
        rows = pq.read_table(out / "plain" / f"{split}.parquet")
        if family == "sft":
            rows = _conversations(rows)
        elif family == "tool":
            rows = tool_policy.with_agent(rows, TOOL)
        if split == "test" and family != "sft":
            # As the evaluation sets have it.
            rows = rows.append_column(SAMPLES, pa.array([2] * len(rows), pa.int64()))
        pq.write_table(rows, out / f"{split}.parquet")
    replace_text(out / DONE, "")


def _questions(path: Path) -> list[str]:
    return [prompt[-1]["content"] for prompt in pq.read_table(path)["prompt"].to_pylist()]


def _conversations(rows: pa.Table) -> pa.Table:
    """Each question with a call of the tool, its output and the answer, in ReTool-SFT's schema."""
    made: list[dict[str, Any]] = []
    for index, prompt in enumerate(rows["prompt"].to_pylist()):
        question = prompt[-1]["content"]
        terms = [int(term) for term in re.findall(r"\d+", question)]
        arguments = {"code": "+".join(map(str, terms))}
        call = {"type": "function", "function": {"name": tool_policy.TOOL, "arguments": arguments}}
        said = (
            ("user", question, None),
            ("assistant", "", [call]),
            ("tool", str(sum(terms)), None),
            ("assistant", f"#### {sum(terms)}", None),
        )
        made.append(
            {
                "messages": [{"role": r, "content": c, "tool_calls": t} for r, c, t in said],
                "tools": retool_sft.TOOLS,
                "extra_info": extra_info(question, index=index, split="train", tools=True),
            }
        )
    return pa.Table.from_pylist(made, retool_sft.SCHEMA)


def main() -> None:
    """Parse the command line and make one family."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--family", choices=FAMILIES, required=True, help="what to make")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    args = parser.parse_args()
    print(f"Making a tiny model and data in {args.out} (half a minute, once)", flush=True)
    make(args.family, args.out)


if __name__ == "__main__":
    main()
