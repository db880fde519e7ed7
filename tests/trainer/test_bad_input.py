"""What cannot work stops `python -m verl.trainer.main_ppo` at once: one line, exit code not 0."""

import subprocess
from pathlib import Path

import pytest

from tests.support import trainer

pytestmark = pytest.mark.trainer


def start(tmp_path: Path, *overrides: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The model and data do not exist: a start that is not refused at once fails in another way."""
    done = subprocess.run(
        trainer.command(
            *trainer.SMALL,
            f"data.train_files={tmp_path / 'none.parquet'}",
            f"actor_rollout_ref.model.path={tmp_path / 'none'}",
            f"hydra.run.dir={tmp_path}",
            *overrides,
        ),
        env=trainer.environment(**environment),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    # verl says "ray init kwargs" right before it starts Ray.
    assert "ray init" not in done.stdout
    return done


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["+algorithm.stare.target_entropi=0.2"],
            "verl_stare: algorithm.stare.target_entropi=0.2: unknown key; did you mean "
            "target_entropy? (known: target_entropy, top_fraction, variant, amplify, attenuate, "
            "quadrant_weights, adaptive, alpha, amplify_max, attenuate_min, scope, base_estimator)",
        ),
        (
            ["trainer.use_v1=False"],
            "verl_stare: trainer.use_v1=False: adv_estimator=stare needs verl's V1 trainer, "
            "allowed: True",
        ),
        (
            ["+algorithm.stare.base_estimator=remax"],
            "verl_stare: algorithm.stare.base_estimator=remax: verl's V1 trainer makes no greedy "
            "rollouts (reward_baselines) (allowed: gae, gpg, grpo, grpo_passk, grpo_vectorized, "
            "opo, reinforce_plus_plus, reinforce_plus_plus_baseline, rloo, rloo_vectorized)",
        ),
    ],
)
def test_a_bad_setting_is_one_line(tmp_path: Path, overrides: list[str], message: str) -> None:
    done = start(tmp_path, "algorithm.adv_estimator=stare", *overrides)
    assert done.returncode == 1
    assert done.stderr.rstrip().split("\n")[-1] == message
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("version", "in verl 0.10.0: this version is not supported (supported: <0.10,>=0.9.1)"),
        ("get_trainer_cls", "verl.trainer.ppo.v1.trainer_base.get_trainer_cls is missing"),
    ],
)
def test_a_changed_verl_is_named(tmp_path: Path, what: str, message: str) -> None:
    broken = {"VERL_USE_EXTERNAL_MODULES": "break_verl", "BREAK": what}
    done = start(tmp_path, "algorithm.adv_estimator=stare", **broken)
    assert done.returncode == 1
    last = done.stderr.rstrip().split("\n")[-1]
    assert last.startswith("verl_stare: verl_stare 0.1.0: STARE cannot act in verl 0.")
    assert message in last
    assert "Traceback" not in done.stderr
