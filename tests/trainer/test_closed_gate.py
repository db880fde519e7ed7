"""STARE with nothing to do is GRPO bit for bit, through verl's trainer."""

from pathlib import Path

import pytest

from tests.support import trainer
from tests.support.same import same
from tests.support.trainer import Assets, Run
from tests.trainer.conftest import STEPS

pytestmark = [pytest.mark.trainer, trainer.hf_only]

SAVE = f"trainer.save_freq={STEPS}"


@pytest.fixture(scope="module")
def grpo(tmp_path_factory: pytest.TempPathFactory, assets: Assets) -> Run:
    folder = tmp_path_factory.mktemp("grpo")
    return trainer.run(folder, assets, STEPS, SAVE, "algorithm.adv_estimator=grpo")


def test_grpo_learns_and_is_not_ours(grpo: Run) -> None:
    # The runs compared below are of no use if they learn nothing.
    assert all(step["actor/grad_norm"] > 0 for step in grpo.metrics)
    assert not [key for step in grpo.metrics for key in step if key.startswith("stare/")]
    assert "is active in verl" not in grpo.output


def test_a_closed_gate_is_the_base_algorithm(tmp_path: Path, assets: Assets, grpo: Run) -> None:
    settings = ["+algorithm.stare.target_entropy=0", "+algorithm.stare.amplify=2.0"]
    stare = trainer.run(tmp_path, assets, STEPS, SAVE, "algorithm.adv_estimator=stare", *settings)
    assert same(grpo.checkpoint(STEPS), stare.checkpoint(STEPS))
    assert [step["stare/gate_open"] for step in stare.metrics] == [0.0] * STEPS
    assert stare.output.count("is active in verl") == 1


def test_an_open_gate_changes_the_weights_and_is_logged(grpo: Run, open_gate: Run) -> None:
    assert not same(grpo.checkpoint(STEPS), open_gate.checkpoint(STEPS))
    ours, base = open_gate.metrics[0], grpo.metrics[0]
    # The first batch is the same, and our token mean is verl's under token-mean.
    assert ours["stare/batch_entropy"] == pytest.approx(base["actor/entropy"], abs=1e-6)
    assert ours["actor/entropy"] == base["actor/entropy"]
    # The same stages, so no forward pass more.
    stages = [{key for key in step if key.startswith("timing_s/")} for step in (ours, base)]
    assert stages[0] == stages[1]
    for step in open_gate.metrics:
        assert step["stare/gate_open"] == 1.0
        assert 0.01 < step["stare/selected_share"] < 0.1
        assert step["stare/surprisal_selected"] > step["stare/surprisal_unselected"]
        assert step["stare/token_weight"] == pytest.approx(1 + step["stare/selected_share"])
        assert step["stare/nonfinite_tokens"] == 0
