"""Train one arm of the demo by verl's own command, with a progress bar and a log file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from children import run

HERE = Path(__file__).resolve().parent
# Both arms have the settings of STARE; the estimator decides whether they are used.
ARMS = {name: ["+stare=demo", f"algorithm.adv_estimator={name}"] for name in ("grpo", "stare")}

# Our preset for each rollout.
PRESETS = {"hf": "tiny", "vllm": "vllm"}


def rollout() -> str:
    """The rollout that ROLLOUT names, `hf` by default."""
    return os.environ.get("ROLLOUT") or "hf"


def finished_steps(checkpoints: Path) -> int:
    """The step of the newest checkpoint, 0 if there is none."""
    tracker = checkpoints / "latest_checkpointed_iteration.txt"
    # verl does not write it atomically: a kill may leave it empty.
    text = tracker.read_text().strip() if tracker.exists() else ""
    if tracker.exists() and not text:
        tracker.unlink()
    return int(text or 0)


def train(arm: str, steps: int, seed: int, out: Path, overrides: list[str], lock: int) -> int:
    """Run `verl.trainer.main_ppo` up to `steps`, from the newest checkpoint if there is one.

    Args:
        arm: one of ARMS.
        steps: of training, in all.
        seed: of data order, sampling and model.
        out: the demo's folder.
        overrides: Hydra overrides of the user.
        lock: descriptor of the folder's lock.

    Returns:
        The exit code; 0 at once if the checkpoint of that step exists.
    """
    checkpoints = out / "checkpoints" / arm
    if finished_steps(checkpoints) >= steps:
        print(f"{arm}: step {steps} is done already")
        return 0
    logs = out / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    # verl starts its metrics file afresh on every start, so each start has one of its own.
    part = len(list(logs.glob(f"{arm}.*.log")))
    metrics, console = logs / f"{arm}.{part:03d}.jsonl", logs / f"{arm}.{part:03d}.log"
    command = [
        sys.executable,
        *("-m", "verl.trainer.main_ppo"),
        f"hydra.searchpath=[pkg://verl_stare.presets,{_quoted(f'file://{HERE}/config')}]",
        f"hydra.run.dir={_quoted(out / 'hydra' / arm)}",
        *(f"+cpu={PRESETS[rollout()]}", "+demo=arithmetic"),
        *ARMS[arm],
        f"demo.out={_quoted(out)}",
        f"demo.seed={seed}",
        f"demo.reward={_quoted(HERE / 'reward.py')}",
        f"trainer.experiment_name={arm}",
        f"trainer.total_training_steps={steps}",
        *overrides,
    ]
    environment = {
        "VERL_PLATFORM": "cpu",
        "VERL_FILE_LOGGER_PATH": str(metrics),
        "RAY_DEDUP_LOGS": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    watch = partial(_watch, metrics=metrics, arm=arm, steps=steps)
    with console.open("wb") as log:
        code = run(command, lock, environment=environment, output=log, watch=watch)
    if code:
        tail = console.read_text(errors="replace").splitlines()[-25:]
        print("\n".join(tail), file=sys.stderr)
        print(f"demo: {arm} ended with exit code {code}; whole log: {console}", file=sys.stderr)
    return code


def _quoted(value: object) -> str:
    """`value` as one word of Hydra's override grammar, whatever characters a path has."""
    return "'" + str(value).replace("'", "\\'") + "'"


def _watch(process: subprocess.Popen[bytes], metrics: Path, arm: str, steps: int) -> None:
    """Show progress until the process ends."""
    done = 0
    interval = 0.1 if sys.stderr.isatty() else 5.0
    with tqdm(total=steps, desc=arm, unit="step", mininterval=interval) as bar:
        bar.set_postfix_str("starting Ray and verl's workers, about a minute")
        running = True
        while running:
            running = process.poll() is None
            # What follows the last line feed is still being written.
            lines = metrics.read_text().split("\n")[:-1] if metrics.exists() else []
            for line in lines[done:]:
                _show(bar, json.loads(line))
            done = len(lines)
            if running:
                time.sleep(0.5)


def _show(bar: tqdm[Any], record: dict[str, Any]) -> None:
    entropy, score = (record["data"].get(k) for k in ("actor/entropy", "critic/score/mean"))
    bar.update(record["step"] - bar.n)
    if entropy is not None and score is not None:
        bar.set_postfix_str(f"entropy {entropy:.3f}, score {score:.2f}")
