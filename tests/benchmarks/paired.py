"""Step times of the demo with GRPO and with STARE, in alternating runs of verl's trainer.

    python -m tests.benchmarks.paired [--pairs 3] [--steps 40] [--out DIR] [--json OUT]

Both arms train the same warm-started model on the same data with the same seed. STARE's gate is
open at every step, with a weight so near to 1 that both sample nearly the same texts: else the arms
would soon be generating responses of different lengths, and that would be timed. A step of the demo
takes about a second, so that this is where STARE's cost weighs most.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "recipes" / "demo"
for folder in (ROOT, DEMO):
    sys.path.insert(0, str(folder))

import train  # noqa: E402
from verl_stare import runlog  # noqa: E402
from verl_stare.files import replace_text  # noqa: E402

OPEN = ["algorithm.stare.target_entropy=100", "algorithm.stare.amplify=1.0000002"]
# The first steps pay for imports and compilation.
SKIPPED = 3
PARTS = ("step", "gen", "old_log_prob", "adv", "update_actor", "update_weights")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--out", type=Path, default=ROOT / "outputs" / "benchmarks" / "paired")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(argv)

    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    _prepare(out)
    seconds: dict[str, list[dict[str, float]]] = {"grpo": [], "stare": []}
    for pair in range(options.pairs):
        # Who goes first alternates too.
        for arm in list(seconds)[:: 1 if pair % 2 == 0 else -1]:
            code, steps = _run(arm, options.steps, out, pair)
            if code:
                return code
            seconds[arm] += steps
    figures = _figures(seconds, options.pairs)
    print(_table(figures))
    if options.json:
        replace_text(options.json, json.dumps(figures, indent=2) + "\n")
        print(f"written to {options.json}")
    return 0


def _prepare(out: Path) -> None:
    """The demo's data and model, made once."""
    stages = [
        (out / "data" / "manifest.json", ROOT / "data_prep" / "arithmetic.py", ["--out", "data"]),
        (
            out / "model" / "warm_start.json",
            DEMO / "warm_start.py",
            ["--data", "data", "--out", "model"],
        ),
    ]
    for result, script, arguments in stages:
        if not result.exists():
            subprocess.run(
                [sys.executable, str(script), *arguments, "--seed", "1"], cwd=out, check=True
            )


def _run(arm: str, steps: int, out: Path, pair: int) -> tuple[int, list[dict[str, float]]]:
    """Exit code of a run, and the seconds of the parts of each of its steps."""
    logs = out / "logs"
    before = set(logs.glob(f"{arm}.*.jsonl"))
    lock = os.open(out / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(lock, fcntl.LOCK_EX)
    overrides = [
        *OPEN,
        "trainer.save_freq=-1",
        "trainer.resume_mode=disable",
    ]
    code = train.train(arm, steps, 1, out, overrides, lock)
    os.close(lock)
    if code:
        return code, []
    [log] = set(logs.glob(f"{arm}.*.jsonl")) - before
    records = runlog.read([log])[SKIPPED:]
    return 0, [{part: r["data"][f"timing_s/{part}"] for part in PARTS} for r in records]


def _figures(seconds: dict[str, list[dict[str, float]]], pairs: int) -> dict[str, Any]:
    medians = {
        arm: {part: median(step[part] for step in steps) for part in PARTS}
        for arm, steps in seconds.items()
    }
    return {
        "pairs": pairs,
        "steps": {arm: len(steps) for arm, steps in seconds.items()},
        "median_seconds": medians,
        "step_ratio": medians["stare"]["step"] / medians["grpo"]["step"],
        # What cannot come from another text or a busier machine.
        "added_in_adv": medians["stare"]["adv"] - medians["grpo"]["adv"],
    }


def _table(figures: dict[str, Any]) -> str:
    medians = figures["median_seconds"]
    lines = [
        f"\n{figures['pairs']} pairs of runs, medians in ms",
        f"{'':16}{'GRPO':>10}{'STARE':>10}",
    ]
    for part in PARTS:
        lines.append(
            f"{part:16}{1e3 * medians['grpo'][part]:10.1f}{1e3 * medians['stare'][part]:10.1f}"
        )
    lines.append(
        f"step time, STARE / GRPO: {figures['step_ratio']:.3f}; the advantage stage takes "
        f"{1e3 * figures['added_in_adv']:.1f} ms longer, "
        f"{100 * figures['added_in_adv'] / medians['grpo']['step']:.1f} % of a step"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
