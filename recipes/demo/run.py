"""The demo's stages in order: data, model, one training run an arm, report.

Settings come from the environment (STEPS, SEED, OUT, ARMS; see recipes/run_stare_demo.sh), extra
arguments are Hydra overrides for every arm. A stage that is done is not repeated.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import report  # noqa: E402
import train  # noqa: E402


@dataclass(frozen=True)
class Settings:
    """What the user asked for; seed and overrides are fixed for an output folder."""

    steps: int
    seed: int
    arms: tuple[str, ...]
    overrides: tuple[str, ...]


def main() -> int:
    try:
        settings = _settings(sys.argv[1:])
        out = Path(os.environ["OUT"]).resolve()
        out.mkdir(parents=True, exist_ok=True)
        with FileLock(out / ".lock", timeout=0):
            return _run(settings, out)
    except ValueError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except Timeout:
        print(f"demo: another run is using {os.environ['OUT']}", file=sys.stderr)
        return 2


def _settings(overrides: list[str]) -> Settings:
    arms = tuple(os.environ["ARMS"].split())
    unknown = sorted(set(arms) - set(train.ARMS))
    if unknown or not arms:
        raise ValueError(f"ARMS={os.environ['ARMS']!r}: allowed are {', '.join(train.ARMS)}")
    return Settings(
        _positive("STEPS"), _positive("SEED"), tuple(dict.fromkeys(arms)), tuple(overrides)
    )


def _positive(name: str) -> int:
    text = os.environ[name]
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name}={text!r}: must be a whole number >= 1")
    return int(text)


def _run(settings: Settings, out: Path) -> int:
    _claim(settings, out)
    data, model = out / "data", out / "model"
    seed = str(settings.seed)
    if not (data / "manifest.json").exists():
        print("== Data: problems of reasoning-gym", flush=True)
        _call(HERE.parents[1] / "data_prep/arithmetic.py", "--out", str(data), "--seed", seed)
    if not (model / "warm_start.json").exists():
        print("== Model: supervised warm start", flush=True)
        _call(HERE / "warm_start.py", "--data", str(data), "--out", str(model), "--seed", seed)
    for arm in settings.arms:
        print(f"== Training: {arm}, {settings.steps} steps", flush=True)
        code = train.train(arm, settings.steps, settings.seed, out, list(settings.overrides))
        if code:
            return code
    print(report.write(out, settings.steps))
    return 0


def _claim(settings: Settings, out: Path) -> None:
    """Refuse to continue a folder whose checkpoints belong to other settings."""
    path = out / "settings.json"
    now = {key: value for key, value in asdict(settings).items() if key not in ("arms", "steps")}
    now["overrides"] = list(settings.overrides)
    if path.exists():
        before = json.loads(path.read_text())
        if before != now:
            raise ValueError(f"{out} holds a run with {before}, not {now}: choose another OUT")
        return
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(now))
    temporary.replace(path)


def _call(script: Path, *arguments: str) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, str(script), *arguments], check=True, env=environment)


if __name__ == "__main__":
    sys.exit(main())
