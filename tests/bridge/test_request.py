"""What a configuration asks of STARE, on verl's own configuration composed by Hydra."""

import logging

import pytest
from hydra import compose, initialize_config_module
from omegaconf import DictConfig

from verl_stare.bridge import request
from verl_stare.config import ConfigError, StareConfig


def composed(*overrides: str) -> DictConfig:
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=list(overrides))


def test_the_estimators_name_alone_asks_for_the_defaults() -> None:
    assert request.settings(composed("algorithm.adv_estimator=stare")) == StareConfig()


def test_settings_are_read_under_algorithm_stare() -> None:
    config = composed(
        "algorithm.adv_estimator=stare",
        "+algorithm.stare.target_entropy=0.2",
        "+algorithm.stare.top_fraction=0.05",
        "+algorithm.stare.amplify=2",
    )
    assert request.settings(config) == StareConfig(0.2, 0.05, 2)


@pytest.mark.parametrize("estimator", ["grpo", "gae", "rloo"])
def test_other_estimators_ask_for_nothing(estimator: str, caplog: pytest.LogCaptureFixture) -> None:
    assert request.settings(composed(f"algorithm.adv_estimator={estimator}")) is None
    assert not caplog.records


def test_settings_without_the_estimator_are_pointed_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = composed("algorithm.adv_estimator=grpo", "+algorithm.stare.amplify=2")
    with caplog.at_level(logging.WARNING, logger="verl_stare"):
        assert request.settings(config) is None
    [record] = caplog.records
    assert "STARE is off" in record.getMessage()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["+algorithm.stare.amplifi=2"], "algorithm.stare.amplifi=2: unknown key; did you mean"),
        (["+algorithm.stare.amplify=0.5"], "algorithm.stare.amplify=0.5: must be"),
        (["+algorithm.stare.top_fraction=ten"], "algorithm.stare.top_fraction='ten': must be"),
        (["+algorithm.stare.target_entropy=true"], "algorithm.stare.target_entropy=True: must be"),
        (["+algorithm.stare.target_entropy=null"], "algorithm.stare.target_entropy=None: must be"),
        (["+algorithm.stare=3"], "algorithm.stare=3: must be a mapping"),
        (["+algorithm.stare=[1,2]"], "algorithm.stare=[1, 2]: must be a mapping"),
        (["trainer.use_v1=False"], "trainer.use_v1=False: adv_estimator=stare needs"),
        (
            ["algorithm.rollout_correction.bypass_mode=True"],
            "algorithm.rollout_correction.bypass_mode=True: it skips the pass",
        ),
    ],
)
def test_bad_requests_are_one_line(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        request.settings(composed("algorithm.adv_estimator=stare", *overrides))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_the_estimators_name_in_other_letters_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"algorithm\.adv_estimator=STARE: allowed: stare"):
        request.settings(composed("algorithm.adv_estimator=STARE"))


def test_misspelt_settings_of_another_estimator_are_refused_too() -> None:
    with pytest.raises(ConfigError):
        request.settings(composed("algorithm.adv_estimator=grpo", "+algorithm.stare.amplifi=2"))
