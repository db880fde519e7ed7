"""The same rollouts get the same token weights under every split, through verl's trainer."""

from pathlib import Path

import pytest
import torch

from tests.support import trainer
from tests.support.expect import DYNAMIC, micro_batches
from tests.support.trainer import Assets, Run
from tests.trainer.conftest import OPEN_GATE

pytestmark = [pytest.mark.trainer, trainer.hf_only]

SPLITS = {
    "micro-batches of 1": micro_batches(1),
    "micro-batches of 4": micro_batches(4),
    "dynamic batch size": DYNAMIC,
    "2 ranks": ["trainer.n_gpus_per_node=2", *micro_batches(8)],
}


@pytest.mark.parametrize("name", SPLITS)
def test_weights_do_not_depend_on_the_split(
    tmp_path: Path, assets: Assets, open_gate: Run, name: str
) -> None:
    split = trainer.run(tmp_path, assets, 2, *OPEN_GATE, *SPLITS[name], record=True)
    expected, actual = open_gate.rows(1), split.rows(1)
    assert expected.keys() == actual.keys()
    assert len(expected) == 64
    tokens = different = amplified = 0
    for row, values in expected.items():
        other = actual[row]
        assert values["responses"] == other["responses"]
        assert torch.equal(values["base"], other["base"])
        torch.testing.assert_close(values["log_probs"], other["log_probs"], atol=1e-4, rtol=0)
        tokens += values["weights"].numel()
        amplified += int((values["weights"] > 1.5).sum())
        different += int((values["weights"] != other["weights"]).sum())
    print(f"{name}: {different} of {tokens} tokens have another weight")
    # Log-probs differ by rounding, which may carry a token over the threshold, but hardly ever.
    assert different < 0.001 * tokens
    assert 10 < amplified < 0.1 * tokens
    assert split.metrics[0]["stare/selected_share"] == pytest.approx(
        open_gate.metrics[0]["stare/selected_share"], abs=0.001
    )
