"""Running verl's trainer on the CPU as a user does: `python -m verl.trainer.main_ppo`."""

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.forked import Interpreter

SUPPORT = Path(__file__).resolve().parent
ROOT = SUPPORT.parents[1]
# What generates; tests/run_tests.sh passes it on and chooses the environment.
ROLLOUT = os.environ.get("ROLLOUT") or "hf"
PRESET = {"hf": "tiny", "vllm": "vllm"}[ROLLOUT]
hf_only = pytest.mark.skipif(
    ROLLOUT != "hf",
    reason="compares runs that must have equal rollouts: only hf's are, bit for bit",
)
vllm_only = pytest.mark.skipif(ROLLOUT != "vllm", reason="tests vLLM: ROLLOUT=vllm runs it")


@dataclass(frozen=True)
class Assets:
    """A tiny untrained model and a few problems."""

    folder: Path

    @property
    def overrides(self) -> list[str]:
        data, model = self.folder / "data", self.folder / "model"
        return [
            f"data.train_files={data / 'train.parquet'}",
            f"data.val_files={data / 'test.parquet'}",
            f"actor_rollout_ref.model.path={model}",
        ]


@dataclass(frozen=True)
class Run:
    """A finished run."""

    folder: Path
    code: int
    output: str

    @property
    def metrics(self) -> list[dict[str, Any]]:
        lines = (self.folder / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["data"] for line in lines]

    def checkpoint(self, step: int) -> dict[str, Any]:
        """The actor's model and optimizer in the checkpoint of `step`."""
        actor = self.folder / "checkpoints" / f"global_step_{step}" / "actor"
        return {
            part: torch.load(actor / f"{part}_world_size_1_rank_0.pt", weights_only=False)
            for part in ("model", "optim")
        }

    def rows(self, step: int) -> dict[Any, dict[str, Any]]:
        """What tests/support/record_weights.py saved."""
        return torch.load(self.folder / f"step_{step}.pt", weights_only=False)


# 8 prompts of 8 samples with at most 16 new tokens, one gradient step each.
SMALL = [
    "hydra.searchpath=[pkg://verl_stare.presets]",
    f"+cpu={PRESET}",
    "data.train_batch_size=8",
    "data.max_prompt_length=40",
    "data.max_response_length=16",
    "data.seed=1",
    "actor_rollout_ref.rollout.n=8",
    "actor_rollout_ref.rollout.max_model_len=64",
    "actor_rollout_ref.actor.ppo_mini_batch_size=8",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=64",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=64",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=64",
    "actor_rollout_ref.actor.optim.lr=1e-3",
    f"reward.custom_reward_function.path={SUPPORT / 'mixed_reward.py'}",
    "reward.custom_reward_function.name=compute_score",
    "trainer.logger=[file]",
    "trainer.project_name=tests",
    "trainer.experiment_name=tests",
    "trainer.val_before_train=False",
    "trainer.test_freq=-1",
    "trainer.save_freq=-1",
    "trainer.resume_mode=disable",
]


def command(*overrides: str) -> list[str]:
    return [sys.executable, "-m", "verl.trainer.main_ppo", *overrides]


def environment(**extra: str) -> dict[str, str]:
    return {
        **os.environ,
        "VERL_PLATFORM": "cpu",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "RAY_DEDUP_LOGS": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")]).rstrip(
            os.pathsep
        ),
        **extra,
    }


@functools.cache
def _interpreter() -> Interpreter:
    """One for all runs of this process of pytest."""
    folder = tempfile.TemporaryDirectory(prefix="forked-")
    interpreter = Interpreter(Path(folder.name) / "socket", environment())
    atexit.register(folder.cleanup)
    atexit.register(interpreter.close)
    return interpreter


def forked_workers() -> list[str]:
    """Overrides with which Ray's workers are forks, see tests/support/forked.py."""
    workers = " ".join(_interpreter().command("leave"))
    return [f"++ray_kwargs.ray_init.runtime_env.py_executable={workers}"]


def forked(arguments: list[str]) -> list[str]:
    """A command of the trainer whose processes are forks."""
    return [*_interpreter().command("run"), *arguments[1:], *forked_workers()]


def run(
    folder: Path,
    assets: Assets,
    steps: int,
    *overrides: str,
    record: bool = False,
    modules: str = "",
    fails: bool = False,
    fork: bool = ROLLOUT == "hf",
    **variables: str,
) -> Run:
    """Train up to step `steps` in `folder`.

    Args:
        record: save what STARE did, see tests/support/record_weights.py.
        modules: of tests/support, loaded in every process; `variables` are their environment.
        fails: whether an exit code other than 0 is what the test wants, instead of 0.
        fork: start the processes as forks, which takes a third of the time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    extra = {"VERL_FILE_LOGGER_PATH": str(folder / "metrics.jsonl"), **variables}
    if record:
        modules = ",".join(filter(None, [modules, "record_weights"]))
        extra["STARE_RECORD"] = str(folder)
    if modules:
        extra["VERL_USE_EXTERNAL_MODULES"] = modules
    arguments = command(
        *SMALL,
        *assets.overrides,
        f"hydra.run.dir={folder / 'hydra'}",
        f"trainer.default_local_dir={folder / 'checkpoints'}",
        f"trainer.total_training_steps={steps}",
        "trainer.total_epochs=100",
        *overrides,
    )
    done = subprocess.run(
        forked(arguments) if fork else arguments,
        cwd=folder,
        env=environment(**extra),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    (folder / "console.log").write_text(done.stdout)
    assert (done.returncode != 0) is fails, done.stdout[-5000:]
    return Run(folder, done.returncode, done.stdout)
