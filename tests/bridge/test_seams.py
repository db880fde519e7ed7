"""The seams: what is registered, what is checked, and that other runs are left alone."""

import os
import subprocess
import sys
from types import ModuleType

import pytest
from omegaconf import OmegaConf

from verl_stare.bridge import request, seams
from verl_stare.bridge.trainer import StareMixin


@pytest.fixture
def problems(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    collected: list[tuple[str, str]] = []
    monkeypatch.setattr(seams, "_problems", collected)
    return collected


def test_verl_is_as_expected(problems: list[tuple[str, str]]) -> None:
    seams.check()
    assert problems == []


@pytest.mark.parametrize("mode", ["sync", "colocate_async", "separate_async"])
def test_every_trainer_gets_the_mixin_once(mode: str) -> None:
    from verl.trainer.ppo.v1 import get_trainer_cls, trainer_base

    extended = get_trainer_cls(mode)
    assert extended is trainer_base.get_trainer_cls(mode)
    registered = trainer_base.TRAINER_REGISTRY[mode]
    assert extended.__mro__[1:3] == (StareMixin, registered)


def test_a_trainer_derived_from_an_extended_one_is_left_as_it_is() -> None:
    from verl.trainer.ppo.v1 import get_trainer_cls, trainer_base

    class Derived(get_trainer_cls("sync")):  # type: ignore[misc]
        pass

    trainer_base.register_trainer("derived")(Derived)
    try:
        assert get_trainer_cls("derived") is Derived
    finally:
        del trainer_base.TRAINER_REGISTRY["derived"]


def test_what_is_replaced_is_pickled_by_name() -> None:
    import pickle

    from verl.trainer.ppo.v1 import trainer_base
    from verl.workers.utils import losses

    for function in (
        losses.ppo_loss,
        trainer_base.get_trainer_cls,
        trainer_base.compute_advantage_for_multi_trajectories,
    ):
        assert pickle.loads(pickle.dumps(function)) is function


def test_an_unknown_trainer_is_still_verls_error() -> None:
    from verl.trainer.ppo.v1 import get_trainer_cls

    with pytest.raises(ValueError, match="Unknown trainer 'none'"):
        get_trainer_cls("none")


def test_a_trainer_without_the_mixin_is_stopped() -> None:
    from verl.trainer.ppo import core_algos

    with pytest.raises(RuntimeError, match="not one of verl's V1 trainers"):
        core_algos.get_adv_estimator_fn("stare")(token_level_rewards=None, response_mask=None)


def test_a_missing_symbol_is_named_with_verls_version(problems: list[tuple[str, str]]) -> None:
    import verl

    module = ModuleType("verl.some.module")
    assert not seams.has(module, "Trainer.step", ("self",))
    [(part, problem)] = problems
    assert part == seams.STARE
    assert problem.endswith(f"in verl {verl.__version__}: verl.some.module.Trainer.step is missing")


def test_a_changed_signature_is_named(problems: list[tuple[str, str]]) -> None:
    module = ModuleType("verl.some.module")
    module.step = lambda data: None  # type: ignore[attr-defined]
    assert not seams.has(module, "step", ("batch", "metrics"))
    assert problems[0][1].endswith("step takes ('data',), not ('batch', 'metrics')")


def test_what_only_the_cpu_needs_does_not_stop_stare(problems: list[tuple[str, str]]) -> None:
    assert not seams.has(ModuleType("verl.some.module"), "gone", part="the CPU platform")
    assert "the CPU platform cannot act" in problems[0][1]
    seams.check()


def test_the_estimators_name_is_swapped_only_while_verl_computes_the_base() -> None:
    config = OmegaConf.create({"algorithm": {"adv_estimator": "stare"}})
    with pytest.raises(KeyError), request.estimator(config, "grpo"):
        assert config.algorithm.adv_estimator == "grpo"
        raise KeyError
    assert config.algorithm.adv_estimator == "stare"


@pytest.mark.parametrize(
    "module",
    [
        "verl_stare.bridge.plugin",
        "verl_stare.bridge.seams",
        "verl_stare.bridge.hooks",
        "verl_stare.bridge.loss",
        "verl_stare.bridge.trainer",
        "verl_stare.cpu.platform",
    ],
)
def test_the_plugin_is_active_whatever_is_imported_first(module: str) -> None:
    code = (
        f"import {module}; from verl.trainer.ppo.v1 import get_trainer_cls; "
        "from verl.plugin.platform import PlatformRegistry; "
        "print(get_trainer_cls('sync').__name__, 'cpu' in PlatformRegistry.registered_names())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "VERL_PLATFORM": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "StarePPOTrainerSync True"
