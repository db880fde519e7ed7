"""Runs that several tests of verl's trainer compare with."""

import pytest

from tests.support import trainer
from tests.support.expect import ESTIMATOR, OPEN
from tests.support.trainer import Assets, Run

STEPS = 3
OPEN_GATE = [*ESTIMATOR, *OPEN]


@pytest.fixture(scope="session")
def open_gate(tmp_path_factory: pytest.TempPathFactory, assets: Assets) -> Run:
    """STARE with the gate always open: one rank, one micro-batch of all sequences."""
    folder = tmp_path_factory.mktemp("open_gate")
    return trainer.run(folder, assets, STEPS, f"trainer.save_freq={STEPS}", *OPEN_GATE, record=True)
