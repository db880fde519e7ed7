"""A run killed while it saves, and resumed, is the run that was never killed."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support import trainer
from tests.support.expect import ESTIMATOR, LOSS
from tests.support.same import same
from tests.support.trainer import Assets, Run

pytestmark = [pytest.mark.trainer, trainer.hf_only]

SETTINGS = [
    *ESTIMATOR,
    *LOSS,
    "+algorithm.stare.variant=C2",
    "+algorithm.stare.target_entropy=100",
    "+algorithm.stare.adaptive=True",
    "+algorithm.stare.alpha=0.15",
    "+algorithm.stare.amplify_max=2.0",
    "trainer.save_freq=1",
    "trainer.test_freq=2",
]
STEPS = 4


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory, assets: Assets) -> Run:
    return trainer.run(tmp_path_factory.mktemp("straight"), assets, STEPS, *SETTINGS)


def state(run: Run, step: int) -> dict:
    path = run.folder / "checkpoints" / f"global_step_{step}" / "verl_stare.json"
    return json.loads(path.read_text())


def test_validation_runs_beside_it(straight: Run) -> None:
    validated = [any(key.startswith("val-") for key in step) for step in straight.metrics]
    assert validated == [False, True, False, True]


def test_the_schedule_moves_and_is_saved_with_every_step(straight: Run) -> None:
    amplify = [step["stare/amplify"] for step in straight.metrics if "stare/amplify" in step]
    assert amplify == pytest.approx([1.1, 1.25, 1.4, 1.55])
    attenuate = [state(straight, step)["state"]["attenuate"] for step in range(1, STEPS + 1)]
    assert attenuate == pytest.approx([0.75, 0.6, 0.5, 0.5])
    assert state(straight, 2)["settings"]["variant"] == "C2"


def test_killed_in_a_save_and_resumed_it_ends_bit_for_bit_the_same(
    tmp_path: Path, assets: Assets, straight: Run
) -> None:
    kill = {"modules": "kill_in_save", "KILL_AT": "3"}
    killed = trainer.run(tmp_path, assets, STEPS, *SETTINGS, fails=True, **kill)
    checkpoints = tmp_path / "checkpoints"
    # Step 3 has its state, which verl's tracker file does not name.
    assert state(killed, 3)["state"] == state(straight, 3)["state"]
    assert (checkpoints / "latest_checkpointed_iteration.txt").read_text() == "2"

    (tmp_path / "metrics.jsonl").rename(tmp_path / "metrics_killed.jsonl")
    resumed = trainer.run(tmp_path, assets, STEPS, *SETTINGS, "trainer.resume_mode=auto")
    assert "STARE goes on from ControllerState(amplify=1.4" in resumed.output
    for step in range(1, STEPS + 1):
        assert state(resumed, step) == state(straight, step)
        assert same(resumed.checkpoint(step), straight.checkpoint(step))
    steps = [step for step in resumed.metrics if "stare/amplify" in step]
    assert [step["training/global_step"] for step in steps] == [3, 4]
    keys = ("stare/amplify", "stare/batch_entropy", "actor/grad_norm", "actor/stare_token_weight")
    for ours, theirs in zip(steps, straight.metrics[-2:], strict=True):
        assert [ours[key] for key in keys] == [theirs[key] for key in keys]


def test_a_checkpoint_without_state_starts_afresh(
    tmp_path: Path, assets: Assets, straight: Run
) -> None:
    checkpoint = tmp_path / "older" / "global_step_4"
    shutil.copytree(straight.folder / "checkpoints" / "global_step_4", checkpoint)
    path = checkpoint / "verl_stare.json"
    path.unlink()
    run = trainer.run(
        tmp_path,
        assets,
        5,
        *SETTINGS,
        "trainer.resume_mode=resume_path",
        f"trainer.resume_from_path={checkpoint}",
    )
    assert run.output.count(f"{path} is missing: STARE starts afresh") == 1
    assert run.metrics[0]["training/global_step"] == 5
    assert run.metrics[0]["stare/amplify"] == 1.1
