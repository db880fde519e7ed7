"""The mixin over verl's own `_compute_advantage`, with a TransferQueue in memory."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from tensordict import NonTensorStack, TensorDict
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.v1 import get_trainer_cls, trainer_base

from verl_stare.algo import Decision
from verl_stare.bridge import request
from verl_stare.bridge import trainer as bridge
from verl_stare.config import StareConfig


class Batch:
    """What verl's KVBatchMeta is to `_compute_advantage`."""

    partition_id = "train"

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys
        self.extra_info: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.keys)


class Queue:
    """Rows of jagged tensors by key; only what the two callers use."""

    def __init__(self, rows: dict[str, dict[str, Any]]) -> None:
        self.rows = rows
        self.puts: list[list[str]] = []
        # What a batch carried to the actor.
        self.extra_info: dict[str, Any] = {}

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
    trainer.kl_ctrl_in_reward = core_algos.FixedKLController(0.1)
    metrics: dict[str, float] = {}
    trainer._compute_advantage(Batch(list(rows)), metrics)
    assert config.algorithm.adv_estimator == overrides[0].split("=")[1]
    handed: list[Batch] = []
    monkeypatch.setattr(
        trainer_base.PPOTrainer, "_update_actor", lambda self, batch, metrics: handed.append(batch)
    )
    trainer._update_actor(Batch(list(rows)), metrics)
    queue.extra_info = handed[0].extra_info
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
    # Stored once, with verl's own; the returns are not weighted.
    assert queue.puts == [["advantages", "returns"]]
    assert {key: values["returns"].tolist() for key, values in queue.rows.items()} == base
    assert queue.extra_info == {}


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
    with pytest.raises(RuntimeError, match="STARE needs the entropy"):
        advantages(monkeypatch, rows, *STARE)


def test_rows_of_other_lengths_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {key: dict(values) for key, values in ROWS.items()}
    rows["b_0_0"]["entropy"] = torch.zeros(2)
    with pytest.raises(RuntimeError, match="rows of entropy differ in length"):
        advantages(monkeypatch, rows, *STARE)


def test_a_trainer_that_skips_the_seam_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        trainer_base.PPOTrainer, "_compute_advantage", lambda self, batch, metrics: batch
    )
    with pytest.raises(RuntimeError, match="STARE cannot act"):
        advantages(monkeypatch, ROWS, *STARE)


def test_an_actors_update_without_a_decision_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=list(STARE))
    cls = get_trainer_cls("sync")
    trainer = cls.__new__(cls)
    monkeypatch.setattr(trainer_base.PPOTrainer, "__init__", lambda self, config: None)
    trainer.__init__(config)
    with pytest.raises(RuntimeError, match="STARE has not decided on"):
        trainer._update_actor(Batch([]), {})


BASES = {
    "grpo": ["algorithm.norm_adv_by_std_in_grpo=True"],
    "grpo without std": ["algorithm.norm_adv_by_std_in_grpo=False"],
    "grpo_vectorized": [],
    "grpo_passk": [],
    "rloo": [],
    "rloo_vectorized": [],
    "reinforce_plus_plus": [],
    "reinforce_plus_plus_baseline": [],
    "opo": [],
    "gpg": ["+algorithm.f_norm=1.0"],
    "gae": ["critic.enable=True", "algorithm.lam=0.5"],
}


def test_every_base_that_verl_can_run_is_tried() -> None:
    names = {name.split()[0] for name in BASES}
    assert names == set(core_algos.ADV_ESTIMATOR_REGISTRY) - set(request.CANNOT_BE_BASE)


def base_rows() -> dict[str, dict[str, Any]]:
    """Four groups of two; a token's surprisal is unlike any other's."""
    generator = torch.Generator().manual_seed(0)
    rows = {}
    for index in range(8):
        length = 3 + index % 3
        surprisal = torch.rand(length, generator=generator).tolist()
        rows[f"u{index // 2}_{index % 2}_0"] = {
            **row(f"u{index // 2}", index % 2 + 0.25 * (index // 4), surprisal, [1] * length),
            "values": torch.rand(length, generator=generator),
        }
    return rows


@pytest.mark.parametrize("name", BASES)
def test_every_base_is_reweighted_by_the_sign_of_each_token(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    estimator, rows = name.split()[0], base_rows()
    base, _, _ = advantages(monkeypatch, rows, f"algorithm.adv_estimator={estimator}", *BASES[name])
    overrides = [
        "algorithm.adv_estimator=stare",
        f"+algorithm.stare.base_estimator={estimator}",
        "+algorithm.stare.target_entropy=0.2",
        "+algorithm.stare.variant=C2",
        "+algorithm.stare.amplify=2.0",
        "+algorithm.stare.attenuate=0.5",
        "+algorithm.stare.top_fraction=0.2",
    ]
    ours, _, _ = advantages(monkeypatch, rows, *overrides, *BASES[name])
    tokens = [
        (-float(rows[key]["old_log_probs"][i]), before, ours[key][i])
        for key, values in base.items()
        for i, before in enumerate(values)
    ]
    for sign, weight in ((1, 2.0), (-1, 0.5)):
        side = sorted((t for t in tokens if t[1] * sign > 0), reverse=True)
        high = max(1, math.ceil(0.2 * len(side))) if side else 0
        for place, (_, before, after) in enumerate(side):
            assert after == before * (weight if place < high else 1.0)
    assert any(after != before for _, before, after in tokens)


def test_gae_has_both_signs_within_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    gae = ("algorithm.adv_estimator=gae", "critic.enable=True", "algorithm.lam=0.5")
    base, _, _ = advantages(monkeypatch, base_rows(), *gae)
    assert any(min(values) < 0 < max(values) for values in base.values())


LOSS = "actor_rollout_ref.actor.policy_loss.loss_mode=stare"


@pytest.mark.parametrize("estimator", ["stare", "grpo"])
def test_weights_that_the_actor_takes_are_not_applied_by_the_driver(
    monkeypatch: pytest.MonkeyPatch, estimator: str
) -> None:
    base, _, _ = advantages(monkeypatch, ROWS, *GRPO)
    first = f"algorithm.adv_estimator={estimator}"
    ours, metrics, queue = advantages(monkeypatch, ROWS, first, LOSS, *STARE[1:])
    assert ours == base
    decision = Decision.from_mapping(queue.extra_info["stare_decision"])
    assert decision.gate_open
    # Of the seven positive tokens 5.0 and 4.0 are selected, and 0.5 is the next.
    assert decision.positive_threshold == 2.25
    assert decision.weights.positive_high == 2.0
    assert metrics["stare/gate_open"] == 1


def test_bypass_mode_gates_on_the_mean_sampled_surprisal(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {key: dict(values) for key, values in ROWS.items()}
    for values in rows.values():
        del values["entropy"]
    bypass = "algorithm.rollout_correction.bypass_mode=True"
    base, _, _ = advantages(monkeypatch, rows, *GRPO, bypass)
    surprisals = [0.1, 0.2, 5.0, 0.3, 7.0, 0.4, 0.5, 4.0, 8.0, 0.1]
    mean = sum(surprisals) / len(surprisals)
    for target, factor in ((mean + 0.01, 2), (mean - 0.01, 1)):
        ours, metrics, _ = advantages(
            monkeypatch,
            rows,
            STARE[0],
            bypass,
            f"+algorithm.stare.target_entropy={target}",
            *STARE[2:],
        )
        assert metrics["stare/batch_entropy"] == pytest.approx(mean, abs=1e-5)
        assert metrics["stare/entropy_is_sampled"] == 1.0
        expected = {key: list(values) for key, values in base.items()}
        expected["a_0_1"][0] *= factor
        expected["b_0_0"][2] *= factor
        assert ours == expected


def test_the_mask_after_rejection_is_the_one_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {key: dict(values) for key, values in ROWS.items()}
    for values in rows.values():
        values["rollout_log_probs"] = values["old_log_probs"].clone()
    # The ratio of this token is e^2, which is rejected; then 4.0 and 0.5 are the top two of six.
    rows["a_0_1"]["rollout_log_probs"][0] -= 2.0
    correction = [
        "algorithm.rollout_correction.rollout_is=token",
        "algorithm.rollout_correction.rollout_rs=token_k1",
        "algorithm.rollout_correction.rollout_rs_threshold='0.5_2.0'",
    ]
    base, _, _ = advantages(monkeypatch, rows, *GRPO, *correction)
    ours, metrics, queue = advantages(monkeypatch, rows, *STARE, *correction)
    assert queue.rows["a_0_1"]["response_mask"].tolist() == [0, 1, 0]
    expected = {key: list(values) for key, values in base.items()}
    expected["b_0_0"][1] *= 2
    expected["b_0_0"][2] *= 2
    assert ours == expected
    assert metrics["stare/selected_share"] == pytest.approx(2 / 9)


def test_a_penalty_in_the_reward_comes_before_the_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {key: dict(values) for key, values in ROWS.items()}
    for values in rows.values():
        values["ref_log_prob"] = values["old_log_probs"] - 0.5
    penalty = ["algorithm.use_kl_in_reward=True"]
    base, _, _ = advantages(monkeypatch, rows, *GRPO, *penalty)
    ours, metrics, queue = advantages(monkeypatch, rows, *STARE, *penalty)
    assert metrics["actor/reward_kl_penalty"] != 0
    assert queue.puts == [["advantages", "returns", "token_level_rewards"]]
    changed = [
        (key, i) for key, values in base.items() for i, v in enumerate(values) if ours[key][i] != v
    ]
    assert changed == [("a_0_1", 0), ("b_0_0", 2)]


def test_trackers_see_what_was_asked_for_and_every_setting_that_acts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=["algorithm.adv_estimator=stare"])
    cls = get_trainer_cls("sync")
    monkeypatch.setattr(trainer_base.PPOTrainer, "__init__", lambda self, config: None)
    cls(config)
    assert config.algorithm.adv_estimator == "stare"
    assert config.algorithm.stare == {
        "target_entropy": 0.3,
        "top_fraction": 0.1,
        "variant": "O1",
        "amplify": 1.1,
        "adaptive": False,
        "scope": "batch",
        "base_estimator": "grpo",
    }
    # It is still the same request.
    assert request.read(config) == request.Request(StareConfig(), True, False, False)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("auto", "runs/a/global_step_7"), ("resume_path", "other/global_step_7")],
)
def test_state_is_looked_for_where_verl_resumed_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: str, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    cls = get_trainer_cls("sync")
    trainer = cls.__new__(cls)
    trainer.config = OmegaConf.create(
        {
            "trainer": {
                "resume_mode": mode,
                "default_local_dir": "runs/a",
                "resume_from_path": "other/global_step_7",
            }
        }
    )
    trainer.global_steps = 7
    assert trainer._checkpoint_folder() == tmp_path / expected


def test_a_damaged_state_stops_the_resumed_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    overrides = [*STARE, f"trainer.default_local_dir={tmp_path}"]
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=overrides)
    cls = get_trainer_cls("sync")
    trainer = cls.__new__(cls)
    monkeypatch.setattr(trainer_base.PPOTrainer, "__init__", lambda self, config: None)
    trainer.__init__(config)
    trainer.config = config
    for step in (0, 4):
        monkeypatch.setattr(
            trainer_base.PPOTrainer,
            "_load_checkpoint",
            lambda self, step=step: setattr(self, "global_steps", step),
        )
        path = tmp_path / f"global_step_{step}" / "verl_stare.json"
        path.parent.mkdir()
        path.write_text("{")
        if step == 0:
            trainer._load_checkpoint()  # from scratch: nothing is read
        else:
            with pytest.raises(RuntimeError, match="is not the state of STARE at step 4"):
                trainer._load_checkpoint()


def test_the_schedule_moves_with_the_actors_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    _, metrics, _ = advantages(
        monkeypatch,
        ROWS,
        *STARE[:2],
        "+algorithm.stare.adaptive=True",
        "+algorithm.stare.alpha=0.1",
    )
    assert metrics["stare/amplify"] == 1.1
    # O1 does not use M.
    assert "stare/attenuate" not in metrics
    _, metrics, _ = advantages(monkeypatch, ROWS, *STARE)
    assert "stare/amplify" not in metrics
