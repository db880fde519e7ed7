"""Settings: defaults, ranges and the messages a user sees."""

import dataclasses
import math

import pytest

from verl_stare.config import ConfigError, StareConfig


def test_defaults_are_the_papers() -> None:
    assert StareConfig() == StareConfig(target_entropy=0.3, top_fraction=0.1, amplify=1.1)


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        StareConfig().amplify = 2.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("target_entropy", -0.1, ">= 0"),
        ("target_entropy", math.nan, ">= 0"),
        ("target_entropy", math.inf, ">= 0"),
        ("target_entropy", "0.3", ">= 0"),
        ("target_entropy", None, ">= 0"),
        ("top_fraction", -0.01, "in [0, 1]"),
        ("top_fraction", 1.01, "in [0, 1]"),
        ("top_fraction", 10, "in [0, 1]"),
        ("top_fraction", True, "in [0, 1]"),
        ("amplify", 0.9, ">= 1"),
        ("amplify", 0, ">= 1"),
        ("amplify", math.inf, ">= 1"),
        ("amplify", [1.1], ">= 1"),
    ],
)
def test_bad_values_name_key_value_and_range(key: str, value: object, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        StareConfig.from_mapping({key: value})
    message = f"algorithm.stare.{key}={value!r}: must be a finite number {allowed}"
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "settings",
    [{}, {"target_entropy": 0}, {"top_fraction": 0}, {"top_fraction": 1}, {"amplify": 1}],
)
def test_bounds_are_allowed(settings: dict[str, float]) -> None:
    assert StareConfig.from_mapping(settings) == StareConfig(**settings)


def test_a_misspelt_key_names_the_nearest_one() -> None:
    with pytest.raises(ConfigError) as caught:
        StareConfig.from_mapping({"target_entropi": 0.2})
    assert str(caught.value) == (
        "algorithm.stare.target_entropi=0.2: unknown key; did you mean target_entropy? "
        "(known: target_entropy, top_fraction, amplify)"
    )


def test_a_key_like_no_other_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"zzz=1: unknown key \(known: target_entropy,"):
        StareConfig.from_mapping({"zzz": 1})
