"""The demo's stages in order: data, model, one training run an arm, report.

Settings come from the environment (STEPS, SEED, OUT, ARMS, ROLLOUT; see
recipes/run_stare_demo.sh), extra arguments are Hydra overrides for every arm. A stage that is done
is not repeated.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import report
import train
from children import run
from verl_stare.files import replace_text

HERE = Path(__file__).resolve().parent


class DemoError(Exception):
    """What the user has to change, in one line."""


@dataclass(frozen=True)
class Settings:
    """What the user asked for; seed and overrides are fixed for an output folder."""

    steps: int
    seed: int
    arms: tuple[str, ...]
    overrides: tuple[str, ...]


def main() -> int:
    # Turned into an exception, so that what was started is ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        settings = _settings(sys.argv[1:])
        out = Path(os.environ["OUT"]).resolve()
        out.mkdir(parents=True, exist_ok=True)
        return _run(settings, out, _lock(out))
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("demo: interrupted; the same command goes on from here", file=sys.stderr)
        return 130


def _settings(overrides: list[str]) -> Settings:
    arms = tuple(dict.fromkeys(os.environ["ARMS"].split()))
    if not arms or not set(arms) <= set(train.ARMS):
        raise DemoError(f"ARMS={os.environ['ARMS']!r}: allowed are {', '.join(train.ARMS)}")
    if train.rollout() not in train.PRESETS:
        raise DemoError(f"ROLLOUT={train.rollout()!r}: allowed are {', '.join(train.PRESETS)}")
    return Settings(_positive("STEPS"), _positive("SEED"), arms, tuple(overrides))


def _positive(name: str) -> int:
    text = os.environ[name]
    if not text.isdecimal() or int(text) < 1:
        raise DemoError(f"{name}={text!r}: must be a whole number >= 1")
    return int(text)


def _lock(out: Path) -> int:
    """Take the folder; every child holds it too, so that none outlives its run unnoticed."""
    descriptor = os.open(out / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DemoError(f"another run is using {out}") from None
    return descriptor


def _run(settings: Settings, out: Path, lock: int) -> int:
    _claim(settings, out)
    data, model = out / "data", out / "model"
    seed = str(settings.seed)
    stages = [
        (
            "Data: problems of reasoning-gym",
            data / "manifest.json",
            [HERE.parents[1] / "data_prep/arithmetic.py", "--out", data, "--seed", seed],
        ),
        (
            "Model: supervised warm start",
            model / "warm_start.json",
            [HERE / "warm_start.py", "--data", data, "--out", model, "--seed", seed],
        ),
    ]
    for title, result, command in stages:
        if not result.exists():
            print(f"== {title}", flush=True)
            code = run([sys.executable, *map(str, command)], lock)
            if code:
                return code
    for arm in settings.arms:
        print(f"== Training: {arm}, {settings.steps} steps", flush=True)
        code = train.train(arm, settings.steps, settings.seed, out, list(settings.overrides), lock)
        if code:
            return code
    print(report.write(out, settings.steps))
    return 0


def _claim(settings: Settings, out: Path) -> None:
    """Refuse to continue a folder whose checkpoints belong to other settings."""
    path = out / "settings.json"
    now = {
        "seed": settings.seed,
        "overrides": list(settings.overrides),
        "rollout": train.rollout(),
    }
    if path.exists():
        before = json.loads(path.read_text())
        before.setdefault("rollout", "hf")
        if before != now:
            raise DemoError(f"{out} holds a run with {before}, not {now}: choose another OUT")
        return
    replace_text(path, json.dumps(now))


if __name__ == "__main__":
    sys.exit(main())
