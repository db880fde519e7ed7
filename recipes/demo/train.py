"""Train one arm of the demo by verl's own command, with a progress bar and a log file."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

HERE = Path(__file__).resolve().parent
ARMS = {"grpo": ["algorithm.adv_estimator=grpo"], "stare": ["+stare=demo"]}
_PR_SET_PDEATHSIG = 1


def finished_steps(checkpoints: Path) -> int:
    """The step of the newest checkpoint, 0 if there is none."""
    tracker = checkpoints / "latest_checkpointed_iteration.txt"
    return int(tracker.read_text()) if tracker.exists() else 0


def train(arm: str, steps: int, seed: int, out: Path, overrides: list[str]) -> int:
    """Run `verl.trainer.main_ppo` up to `steps`, from the newest checkpoint if there is one.

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
    part = len(list(logs.glob(f"{arm}.*.jsonl")))
    metrics, console = logs / f"{arm}.{part:03d}.jsonl", logs / f"{arm}.{part:03d}.log"
    environment = {
        **os.environ,
        "VERL_PLATFORM": "cpu",
        "VERL_FILE_LOGGER_PATH": str(metrics),
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "RAY_DEDUP_LOGS": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    command = [
        sys.executable,
        *("-m", "verl.trainer.main_ppo"),
        f"hydra.searchpath=[pkg://verl_stare.presets,{_quoted(f'file://{HERE}/config')}]",
        f"hydra.run.dir={_quoted(out / 'hydra' / arm)}",
        *("+cpu=tiny", "+demo=arithmetic"),
        *ARMS[arm],
        f"demo.out={_quoted(out)}",
        f"demo.seed={seed}",
        f"demo.reward={_quoted(HERE / 'reward.py')}",
        f"trainer.experiment_name={arm}",
        f"trainer.total_training_steps={steps}",
        *overrides,
    ]
    with console.open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=environment, preexec_fn=_end_with_us
        )
        code = _watch(process, metrics, arm, steps)
    if code:
        tail = console.read_text(errors="replace").splitlines()[-25:]
        print("\n".join(tail), file=sys.stderr)
        print(f"demo: {arm} ended with exit code {code}; whole log: {console}", file=sys.stderr)
    return code


def _quoted(value: object) -> str:
    """`value` as one word of Hydra's override grammar, whatever characters a path has."""
    return "'" + str(value).replace("'", "\\'") + "'"


def _end_with_us() -> None:
    # A run whose parent was killed would go on writing the checkpoints that the next start reads.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _watch(process: subprocess.Popen[bytes], metrics: Path, arm: str, steps: int) -> int:
    """Show progress until the process ends; an interruption is passed on to it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    done = 0
    interval = 0.1 if sys.stderr.isatty() else 5.0
    bar = tqdm(total=steps, desc=arm, unit="step", mininterval=interval)
    try:
        with bar:
            bar.set_postfix_str("starting Ray and verl's workers, about a minute")
            while process.poll() is None:
                time.sleep(0.5)
                # What follows the last line feed is still being written.
                lines = metrics.read_text().split("\n")[:-1] if metrics.exists() else []
                for line in lines[done:]:
                    _show(bar, json.loads(line))
                done = len(lines)
        return process.returncode
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def _show(bar: tqdm[Any], record: dict[str, Any]) -> None:
    data = record["data"]
    if "actor/entropy" in data:
        bar.update(record["step"] - bar.n)
        bar.set_postfix_str(
            f"entropy {data['actor/entropy']:.3f}, score {data['critic/score/mean']:.2f}"
        )
