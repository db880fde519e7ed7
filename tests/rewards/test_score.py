"""`compute_score`, alone and called by verl's reward managers."""

import asyncio
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from verl_stare.rewards import compute_score, pool

KEYS = {"score": float, "acc": float, "format": float, "pred": str, "timed_out": float}


@pytest.mark.parametrize(
    "response", [r"\boxed{34}", r"\boxed{35}", "no answer", "", None, "\x00", r"\boxed{"]
)
@pytest.mark.parametrize("gold", ["34", "", None, 34, 34.0, ["1", "34"], '["1", "34"]'])
def test_always_the_same_keys_and_types(response: object, gold: object) -> None:
    score = compute_score("any", response, gold)  # pyright: ignore[reportArgumentType]
    assert {key: type(value) for key, value in score.items()} == KEYS
    right = response == r"\boxed{34}" and gold not in ("", None)
    assert score["acc"] == score["score"] == float(right)


def test_several_golds_are_alternatives() -> None:
    for response, right in ((r"\boxed{\frac12}", 1), (r"\boxed{0.25}", 1), (r"\boxed{3}", 0)):
        assert compute_score("x", response, '["0.5", "\\\\frac{1}{4}"]')["acc"] == right


def test_rewards_are_options() -> None:
    given = {"correct": 2.0, "wrong": -1.0}
    assert compute_score("x", r"\boxed{1}", "1", **given)["score"] == 2.0
    assert compute_score("x", r"\boxed{1}", "2", **given) == {
        "score": -1.0,
        "acc": 0.0,
        "format": 1.0,
        "pred": "1",
        "timed_out": 0.0,
    }


def test_lenient_is_an_option() -> None:
    assert compute_score("x", "so 34", "34")["acc"] == 0.0
    score = compute_score("x", "so 34", "34", lenient=True)
    assert (score["acc"], score["format"]) == (1.0, 0.0)


@pytest.mark.parametrize("missing", [None, float("nan"), 0.0, float("inf"), "none", [1]])
def test_a_rows_tolerance(missing: object) -> None:
    for stated in (0.1, "1e-1"):
        assert compute_score("x", r"\boxed{4.15}", "4.2", {"tolerance": stated})["acc"] == 1.0
    assert compute_score("x", r"\boxed{4.15}", "4.2", {"tolerance": missing})["acc"] == 0.0


def test_a_row_without_ground_truth_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    assert compute_score("that set", r"\boxed{1}", "")["acc"] == 0.0
    assert "that set" in caplog.text


def test_what_takes_too_long_is_counted() -> None:
    score = compute_score("x", r"\boxed{6^{6^{6^{6}}}}", r"\sqrt{2}", time_limit=0.2)
    assert (score["acc"], score["timed_out"]) == (0.0, 1.0)
    # Right after all by another gold: nothing was missed.
    score = compute_score(
        "x", r"\boxed{6^{6^{6^{6}}}}", [r"\sqrt{2}", "6^{6^{6^{6}}}"], time_limit=0.2
    )
    assert (score["acc"], score["timed_out"]) == (1.0, 0.0)


def test_the_limit_is_of_all_golds_together(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def slow(one: str, other: str, seconds: float) -> tuple[None, float]:
        asked.append(seconds)
        return None, 0.4

    monkeypatch.setattr("verl_stare.rewards.pool.equal", slow)
    golds = [rf"\sqrt{{{n}}}" for n in (2, 3, 5, 7)]
    score = compute_score("x", r"\boxed{\pi}", golds, time_limit=1.0)
    assert score["timed_out"] == 1.0
    assert asked == pytest.approx([1.0, 0.6, 0.2])


def test_waiting_for_a_process_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    # However long it takes to start one: only what the algebra takes is.
    fresh = pool.Pool(1)
    monkeypatch.setattr(pool, "_pool", fresh)
    answer, gold = r"\boxed{(\sqrt{28},\sqrt{44})}", r"(2\sqrt{7},2\sqrt{11})"
    score = compute_score("x", answer, gold, time_limit=1.0)
    fresh.close()
    assert score["acc"] == 1.0


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf")])
def test_a_limit_that_is_none(limit: float) -> None:
    with pytest.raises(ValueError, match="time_limit="):
        compute_score("x", r"\boxed{1}", "1", time_limit=limit)


def test_rewards_load_no_trainer() -> None:
    code = (
        "import sys; from verl_stare.rewards import compute_score; compute_score('x', '1', '1');"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"verl", "ray", "hydra", "torch", "transformers", "sympy", "math_verify"}


class Letters:
    """A tokenizer of characters."""

    def decode(self, ids: torch.Tensor, skip_special_tokens: bool) -> str:
        return "".join(map(chr, ids.tolist()))


def _data(response: str, ground_truth: str, padding: int = 3):
    from verl import DataProto

    ids = torch.tensor([[*map(ord, response), *[0] * padding]])
    prompt = torch.ones(1, 2, dtype=torch.long)
    mask = torch.cat([prompt, (ids != 0).long()], dim=1)

    def column(value: object) -> np.ndarray:
        cells = np.empty(1, dtype=object)
        cells[0] = value
        return cells

    return DataProto.from_dict(
        tensors={"prompts": prompt, "responses": ids, "attention_mask": mask},
        non_tensors={
            "data_source": column("math"),
            "reward_model": column({"style": "rule", "ground_truth": ground_truth}),
            "extra_info": column({"index": 0}),
        },
    )


@pytest.mark.parametrize("manager", ["naive", "dapo"])
def test_by_verls_reward_managers(manager: str) -> None:
    from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
    from verl.trainer.ppo.reward import get_custom_reward_fn

    config = OmegaConf.create(
        {
            "reward": {
                "custom_reward_function": {
                    "path": "pkg://verl_stare.rewards",
                    "name": "compute_score",
                    "reward_kwargs": {"wrong": -1.0},
                },
                "reward_kwargs": {
                    "overlong_buffer_cfg": {
                        "enable": manager == "dapo",
                        "len": 8,
                        "penalty_factor": 1.0,
                        "log": True,
                    },
                    "max_resp_len": 16,
                },
            }
        }
    )

    async def run(response: str, ground_truth: str) -> SimpleNamespace:
        function = get_custom_reward_fn(config)
        scorer = get_reward_manager_cls(manager)(config, Letters(), function)
        return SimpleNamespace(**await scorer.run_single(_data(response, ground_truth)))

    right = asyncio.run(run(r"\boxed{34.0}", "34"))
    wrong = asyncio.run(run(r"\boxed{35}", "34"))
    # 12 characters of 16, of which the last 8 are the buffer: half of the penalty, which is verl's.
    assert right.reward_score == pytest.approx(1.0 if manager == "naive" else 0.5)
    assert wrong.reward_score == pytest.approx(-1.0 if manager == "naive" else -1.25)
    for result, acc in ((right, 1.0), (wrong, 0.0)):
        extra = result.reward_extra_info
        assert {key: type(extra[key]) for key in KEYS} == KEYS
        assert extra["acc"] == acc
