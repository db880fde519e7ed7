"""What a configuration asks of STARE, on verl's own configuration composed by Hydra."""

import logging

import pytest
from hydra import compose, initialize_config_module
from omegaconf import DictConfig

from verl_stare.bridge import request
from verl_stare.config import ConfigError, StareConfig

USE_TASK_REWARDS = "distillation.distillation_loss.use_task_rewards=False"


def composed(*overrides: str) -> DictConfig:
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=list(overrides))


def test_the_estimators_name_alone_asks_for_the_defaults() -> None:
    asked = request.read(composed("algorithm.adv_estimator=stare"))
    assert asked == request.Request(StareConfig(), True, False, False)


def test_settings_are_read_under_algorithm_stare() -> None:
    config = composed(
        "algorithm.adv_estimator=stare",
        "+algorithm.stare.target_entropy=0.2",
        "+algorithm.stare.top_fraction=0.05",
        "+algorithm.stare.amplify=2",
    )
    asked = request.read(config)
    assert asked is not None
    assert asked.settings == StareConfig(target_entropy=0.2, top_fraction=0.05, amplify=2)


@pytest.mark.parametrize("estimator", ["grpo", "gae", "rloo"])
def test_other_estimators_ask_for_nothing(estimator: str, caplog: pytest.LogCaptureFixture) -> None:
    assert request.read(composed(f"algorithm.adv_estimator={estimator}")) is None
    assert not caplog.records


def test_settings_without_the_estimator_are_pointed_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = composed("algorithm.adv_estimator=grpo", "+algorithm.stare.amplify=2")
    with caplog.at_level(logging.WARNING, logger="verl_stare"):
        assert request.read(config) is None
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
            ["+algorithm.stare.scope=micro_batch"],
            "algorithm.stare.scope=micro_batch: the actor alone knows its micro-batches, allowed "
            f"with {request.LOSS_MODE}=stare",
        ),
        (
            ["+algorithm.stare.base_estimator=remax"],
            "algorithm.stare.base_estimator=remax: verl's V1 trainer makes no greedy rollouts",
        ),
        (
            ["+algorithm.stare.base_estimator=gdpo"],
            "algorithm.stare.base_estimator=gdpo: verl's V1 trainer does not pass on",
        ),
        (
            ["+algorithm.stare.base_estimator=optimal_token_baseline"],
            "algorithm.stare.base_estimator=optimal_token_baseline: verl's V1 trainer does not",
        ),
        (
            ["+algorithm.stare.base_estimator=stare"],
            "algorithm.stare.base_estimator=stare: it is not a base of itself (allowed: gae, gpg,",
        ),
        (
            ["+algorithm.stare.base_estimator=grpoo"],
            "algorithm.stare.base_estimator=grpoo: not registered in verl (known: gae, gpg, grpo,",
        ),
        (
            ["+algorithm.stare.base_estimator=gae", "algorithm.use_pf_ppo=True"],
            "algorithm.use_pf_ppo=True: it resamples rows",
        ),
        (
            ["distillation.enabled=True", USE_TASK_REWARDS],
            "distillation.distillation_loss.use_task_rewards=False: no advantage is used then",
        ),
        (
            ["+algorithm.stare.base_estimator=gae", "critic.enable=False"],
            "critic.enable=False: algorithm.stare.base_estimator=gae needs the critic",
        ),
    ],
)
def test_bad_requests_are_one_line(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        request.read(composed("algorithm.adv_estimator=stare", *overrides))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_the_estimators_name_in_other_letters_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"algorithm\.adv_estimator=STARE: allowed: stare"):
        request.read(composed("algorithm.adv_estimator=STARE"))


LOSS_MODE = f"{request.LOSS_MODE}=stare"


@pytest.mark.parametrize("estimator", ["grpo", "gae"])
def test_the_losss_name_alone_asks_for_it_over_any_estimator(estimator: str) -> None:
    asked = request.read(composed(f"algorithm.adv_estimator={estimator}", LOSS_MODE))
    assert asked == request.Request(StareConfig(), False, True, False)
    assert "weights in the actor's loss" in asked.describe()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["algorithm.adv_estimator=remax"], "algorithm.adv_estimator=remax: verl's V1 trainer"),
        (["algorithm.adv_estimator=gae", "algorithm.use_pf_ppo=True"], "algorithm.use_pf_ppo=True"),
        (["distillation.enabled=True", USE_TASK_REWARDS], "distillation.distillation_loss.use_"),
        (["trainer.use_v1=False"], "trainer.use_v1=False: loss_mode=stare needs verl's V1"),
    ],
)
def test_what_the_loss_cannot_act_in_is_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        request.read(composed(LOSS_MODE, *overrides))
    assert str(caught.value).startswith(message)


def test_both_names_ask_for_one_application_in_the_actor() -> None:
    asked = request.read(composed("algorithm.adv_estimator=stare", LOSS_MODE))
    assert asked == request.Request(StareConfig(), True, True, False)
    assert "over grpo and loss_mode=stare; weights in the actor's loss" in asked.describe()


def test_bypass_mode_is_said_to_gate_on_the_sampled_surprisal() -> None:
    asked = request.read(composed("algorithm.adv_estimator=stare", f"{request.BYPASS}=True"))
    assert asked == request.Request(StareConfig(), True, False, True)
    assert "gate on mean sampled surprisal" in asked.describe()


def test_the_losss_name_in_other_letters_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"loss_mode=Stare: allowed: stare"):
        request.read(composed(f"{request.LOSS_MODE}=Stare"))


def test_a_base_that_nothing_uses_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        request.read(composed(LOSS_MODE, "+algorithm.stare.base_estimator=rloo"))
    assert "base_estimator=rloo: has no effect with algorithm.adv_estimator=gae" in str(
        caught.value
    )


def test_quadrant_weights_are_read_from_the_command_line() -> None:
    asked = request.read(
        composed(
            "algorithm.adv_estimator=stare",
            "+algorithm.stare.variant=custom",
            "+algorithm.stare.quadrant_weights={positive_high: 1.2, negative_low: 0.9}",
        )
    )
    assert asked is not None
    assert asked.settings.quadrant_weights == {"positive_high": 1.2, "negative_low": 0.9}


@pytest.mark.parametrize(
    ("overrides", "needed"),
    [
        (["algorithm.adv_estimator=stare"], False),
        (["algorithm.adv_estimator=stare", "+algorithm.stare.base_estimator=gae"], True),
        (["algorithm.adv_estimator=stare", "critic.enable=True"], True),
        (["algorithm.adv_estimator=gae"], True),
        (["algorithm.adv_estimator=grpo"], False),
        (["algorithm.adv_estimator=grpo", "+algorithm.stare.base_estimator=gae"], False),
        # Left to validate_config to refuse, which verl calls after this.
        (["algorithm.adv_estimator=stare", "+algorithm.stare=[1]"], False),
    ],
)
@pytest.mark.filterwarnings("ignore:Disabled critic")
def test_the_base_estimator_decides_whether_there_is_a_critic(
    overrides: list[str], needed: bool
) -> None:
    from verl.trainer.ppo import utils
    from verl.trainer.ppo.v1 import trainer_base

    config = composed(*overrides)
    asked = config.algorithm.adv_estimator
    assert utils.need_critic(config) is needed
    assert trainer_base.need_critic(config) is needed
    assert config.algorithm.adv_estimator == asked


def test_misspelt_settings_of_another_estimator_are_refused_too() -> None:
    with pytest.raises(ConfigError):
        request.read(composed("algorithm.adv_estimator=grpo", "+algorithm.stare.amplifi=2"))
