"""The mixin over verl's own `_compute_advantage`, with a TransferQueue in memory."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_module
from tensordict import NonTensorStack, TensorDict
from verl.trainer.ppo.v1 import get_trainer_cls, trainer_base

from verl_stare.bridge import trainer as bridge


class Batch:
    """What verl's KVBatchMeta is to `_compute_advantage`."""

    partition_id = "train"

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys

    def __len__(self) -> int:
        return len(self.keys)


class Queue:
    """Rows of jagged tensors by key; only what the two callers use."""

    def __init__(self, rows: dict[str, dict[str, Any]]) -> None:
        self.rows = rows
        self.puts: list[list[str]] = []

    def kv_batch_get(
        self, keys: list[str], partition_id: str, select_fields: list[str]
    ) -> TensorDict:
        out: dict[str, Any] = {}
        for field in select_fields:
            values = [self.rows[key][field] for key in keys if field in self.rows[key]]
            if len(values) == len(keys):
                is_tensor = isinstance(values[0], torch.Tensor)
                out[field] = (
                    torch.nested.as_nested_tensor(values, layout=torch.jagged)
                    if is_tensor
                    else NonTensorStack(*values)
                )
        return TensorDict(out, batch_size=len(keys))

    def kv_batch_put(self, keys: list[str], partition_id: str, fields: TensorDict) -> Batch:
        self.puts.append(sorted(fields.keys()))
        for field in list(fields.keys()):
            for key, value in zip(keys, fields[field].unbind(), strict=True):
                self.rows[key][field] = value
        return Batch(keys)


def row(uid: str, score: float, surprisal: list[float], mask: list[int], entropy: float = 0.1):
    scores = torch.zeros(len(mask))
    scores[-1] = score
    return {
        "uid": uid,
        "response_mask": torch.tensor(mask),
        "rm_scores": scores,
        "old_log_probs": -torch.tensor(surprisal),
        "entropy": torch.full((len(mask),), entropy),
    }


def advantages(
    monkeypatch: pytest.MonkeyPatch, rows: dict[str, dict[str, Any]], *overrides: str
) -> tuple[dict[str, list[float]], dict[str, float], Queue]:
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=list(overrides))
    queue = Queue({key: dict(values) for key, values in rows.items()})
    for module in (trainer_base, bridge):
        monkeypatch.setattr(
            module,
            "tq",
            SimpleNamespace(kv_batch_get=queue.kv_batch_get, kv_batch_put=queue.kv_batch_put),
        )
    cls = get_trainer_cls("sync")
    trainer = cls.__new__(cls)
    # What PPOTrainer.__init__ adds is not needed to compute advantages.
    monkeypatch.setattr(trainer_base.PPOTrainer, "__init__", lambda self, config: None)
    trainer.__init__(config)
    trainer.config = config
    metrics: dict[str, float] = {}
    trainer._compute_advantage(Batch(list(rows)), metrics)
    assert config.algorithm.adv_estimator == overrides[0].split("=")[1]
    return (
        {key: values["advantages"].tolist() for key, values in queue.rows.items()},
        metrics,
        queue,
    )


# Two groups of two sessions; session 0 of group a has two outputs, of which the last is scored.
ROWS = {
    "a_0_0": row("a", 1.0, [0.1, 0.2], [1, 1]),
    "a_0_1": row("a", 1.0, [5.0, 0.3, 9.0], [1, 1, 0]),
    "a_1_0": row("a", 0.0, [7.0], [1]),
    "b_0_0": row("b", 1.0, [0.4, 0.5, 4.0], [1, 1, 1]),
    "b_1_0": row("b", 0.0, [8.0, 0.1], [1, 1]),
    # verl's padding row: masked, and its numbers are whatever they are.
    "pad_0_0": row("pad", 0.0, [99.0], [0], entropy=50.0),
}
GRPO = ("algorithm.adv_estimator=grpo",)
STARE = (
    "algorithm.adv_estimator=stare",
    "+algorithm.stare.target_entropy=0.2",
    "+algorithm.stare.amplify=2.0",
    "+algorithm.stare.top_fraction=0.25",
)


def test_only_the_selected_tokens_differ_from_grpo(monkeypatch: pytest.MonkeyPatch) -> None:
    base, no_metrics, _ = advantages(monkeypatch, ROWS, *GRPO)
    ours, metrics, queue = advantages(monkeypatch, ROWS, *STARE)
    assert no_metrics == {}
    # Seven positive tokens, k = 2: surprisals 5.0 and 4.0. Tool output (9.0) is no candidate.
    expected = {key: list(values) for key, values in base.items()}
    expected["a_0_1"][0] *= 2
    expected["b_0_0"][2] *= 2
    assert ours == expected
    assert base["a_0_0"][0] > 0 > base["a_1_0"][0]
    assert metrics["stare/gate_open"] == 1
    assert metrics["stare/batch_entropy"] == pytest.approx(0.1, abs=1e-6)
    assert metrics["stare/selected_share"] == pytest.approx(2 / 10)
    assert queue.puts == [["advantages", "returns"], ["advantages"]]


def test_a_closed_gate_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    base, _, _ = advantages(monkeypatch, ROWS, *GRPO)
    ours, metrics, queue = advantages(
        monkeypatch, ROWS, STARE[0], "+algorithm.stare.target_entropy=0.05"
    )
    assert ours == base
    assert metrics["stare/gate_open"] == 0
    assert queue.puts == [["advantages", "returns"]]


def test_numbers_that_are_not_finite_are_passed_over_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = {key: dict(values) for key, values in ROWS.items()}
    rows["a_0_1"]["old_log_probs"] = torch.tensor([-math.inf, -0.3, math.nan])
    rows["b_1_0"]["entropy"] = torch.tensor([math.nan, 0.1])
    base, _, _ = advantages(monkeypatch, rows, *GRPO)
    ours, metrics, _ = advantages(monkeypatch, rows, *STARE)
    # Six candidates are left, k = 2: 4.0 and 0.5.
    expected = {key: list(values) for key, values in base.items()}
    expected["b_0_0"][1] *= 2
    expected["b_0_0"][2] *= 2
    assert ours == expected
    assert metrics["stare/nonfinite_tokens"] == 2
    assert metrics["stare/gate_open"] == 1


def test_a_missing_field_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {key: dict(values) for key, values in ROWS.items()}
    for values in rows.values():
        del values["entropy"]
    with pytest.raises(RuntimeError, match=r"STARE needs \['entropy'\]"):
        advantages(monkeypatch, rows, *STARE)


def test_rows_of_other_lengths_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {key: dict(values) for key, values in ROWS.items()}
    rows["a_1_0"]["entropy"] = torch.zeros(2)
    with pytest.raises(RuntimeError, match="rows of entropy differ in length"):
        advantages(monkeypatch, rows, *STARE)
