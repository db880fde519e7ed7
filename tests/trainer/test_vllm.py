"""STARE through verl's trainer with vLLM: `ROLLOUT=vllm bash tests/run_tests.sh`."""

import contextlib
import math
import re
from pathlib import Path

import pytest
import torch

from tests.support import trainer
from tests.support.trainer import Assets, Run
from tests.trainer.conftest import OPEN_GATE, STEPS

pytestmark = [pytest.mark.trainer, trainer.vllm_only]

SHARED_MEMORY = Path("/dev/shm")


def shared_memory() -> set[str]:
    """What vLLM, and verl's transfer of weights to it, may leave behind: files in nobody's use."""
    used = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            used |= set(re.findall(r"/dev/shm/(\S+)", maps.read_text()))
    names = {path.name for path in SHARED_MEMORY.iterdir()}
    return {name for name in names - used if name.startswith(("psm_", "verl_"))}


@pytest.fixture(scope="module")
def whole_vocabulary(tmp_path_factory: pytest.TempPathFactory, assets: Assets) -> Path:
    """The model without the rows that pad its embedding.

    verl forbids vLLM to sample them, the actor gives them probability, so that the two differ.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(assets.folder / "model")
    tokenizer = AutoTokenizer.from_pretrained(assets.folder / "model")
    model.resize_token_embeddings(len(tokenizer))
    folder = tmp_path_factory.mktemp("whole_vocabulary")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def left_behind() -> set[str]:
    return set()


@pytest.fixture(scope="module")
def stare(
    tmp_path_factory: pytest.TempPathFactory,
    assets: Assets,
    whole_vocabulary: Path,
    left_behind: set[str],
) -> Run:
    before = shared_memory()
    run = trainer.run(
        tmp_path_factory.mktemp("stare"),
        assets,
        STEPS,
        *OPEN_GATE,
        f"actor_rollout_ref.model.path={whole_vocabulary}",
        record=True,
    )
    left_behind |= shared_memory() - before
    return run


def test_it_trains_and_the_gate_is_open(stare: Run) -> None:
    assert stare.code == 0
    assert len(stare.metrics) == STEPS
    for metrics in stare.metrics:
        ours = {key: value for key, value in metrics.items() if key.startswith("stare/")}
        assert len(ours) == 8
        assert all(map(math.isfinite, ours.values()))
        assert ours["stare/gate_open"] == 1.0
        assert ours["stare/nonfinite_tokens"] == 0
        assert metrics["actor/grad_norm"] > 0


def test_the_selected_tokens_get_the_weight(stare: Run) -> None:
    for step, metrics in enumerate(stare.metrics, start=1):
        rows = stare.rows(step).values()
        weights = torch.cat([row["weights"] for row in rows])
        base = torch.cat([row["base"] for row in rows])
        surprisal = -torch.cat([row["log_probs"] for row in rows])
        selected = weights > 1.5
        torch.testing.assert_close(weights, torch.where(selected, 2.0, 1.0))
        share = selected.double().mean().item()
        assert share == pytest.approx(metrics["stare/selected_share"], abs=1e-6)
        # The most surprising of the tokens with a positive advantage, and no other.
        assert base[selected].min() > 0
        assert surprisal[selected].min() > surprisal[(base > 0) & ~selected].max()


def test_vllm_samples_with_the_weights_of_every_step(stare: Run) -> None:
    # The actor computes anew the probabilities of what vLLM sampled. With the weights of the step
    # before they would be off by more than 1e-3.
    for metrics in stare.metrics:
        assert metrics["training/rollout_probs_diff_valid"] == 1
        assert metrics["training/rollout_probs_diff_max"] < 1e-5


def test_no_shared_memory_is_left(stare: Run, left_behind: set[str]) -> None:
    assert not left_behind
