"""Every bad value is refused where verl's entry point validates: before Ray, as an exit."""

import pytest
from hydra import compose, initialize_config_module
from verl.utils import config as verl_config

BAD = {
    "target_entropy": ["-0.1", "nan", "inf", "high", "null", "true", "[1]"],
    "top_fraction": ["-0.01", "1.01", "10", "nan", "'0.1'", "true"],
    "amplify": ["0.99", "0", "-1", "inf", "{a: 1}", "false"],
}


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in BAD.items() for value in values]
)
def test_bad_values_exit_with_one_line(key: str, value: str) -> None:
    overrides = ["algorithm.adv_estimator=stare", f"+algorithm.stare.{key}={value}"]
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=overrides)
    with pytest.raises(SystemExit) as caught:
        verl_config.validate_config(config, use_reference_policy=False, use_critic=False)
    message = str(caught.value)
    assert message.startswith(f"verl_stare: algorithm.stare.{key}=")
    assert "must be a finite number" in message
    assert "\n" not in message
