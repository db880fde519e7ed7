"""Settings: defaults, ranges and the messages a user sees."""

import dataclasses
import math
from typing import Any

import pytest

from verl_stare.config import ConfigError, StareConfig


def test_defaults_are_the_papers() -> None:
    assert StareConfig() == StareConfig(
        target_entropy=0.3,
        top_fraction=0.1,
        variant="O1",
        amplify=1.1,
        attenuate=0.9,
        adaptive=False,
        alpha=0.01,
        amplify_max=1.5,
        attenuate_min=0.5,
        scope="batch",
        base_estimator="grpo",
    )


KNOWN = [field.name for field in dataclasses.fields(StareConfig)]


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
        ("attenuate", 0, "in (0, 1]"),
        ("attenuate", 1.1, "in (0, 1]"),
        ("alpha", 0, "> 0"),
        ("amplify_max", 0.5, ">= 1"),
        ("attenuate_min", 0, "in (0, 1]"),
    ],
)
def test_bad_values_name_key_value_and_range(key: str, value: object, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        StareConfig.from_mapping({key: value})
    message = f"algorithm.stare.{key}={value!r}: must be a finite number {allowed}"
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"target_entropy": 0},
        {"top_fraction": 0},
        {"top_fraction": 1},
        {"amplify": 1},
        {"variant": "O4", "attenuate": 1},
        {"variant": "custom", "quadrant_weights": {"positive_high": 2}},
        {"adaptive": True, "amplify_max": 1.1, "variant": "C2", "attenuate_min": 0.9},
    ],
)
def test_bounds_are_allowed(settings: dict[str, Any]) -> None:
    assert StareConfig.from_mapping(settings) == StareConfig(**settings)


def test_a_misspelt_key_names_the_nearest_one() -> None:
    with pytest.raises(ConfigError) as caught:
        StareConfig.from_mapping({"target_entropi": 0.2})
    assert str(caught.value) == (
        "algorithm.stare.target_entropi=0.2: unknown key; did you mean target_entropy? "
        f"(known: {', '.join(KNOWN)})"
    )


def test_a_key_like_no_other_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"zzz=1: unknown key \(known: target_entropy,"):
        StareConfig.from_mapping({"zzz": 1})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"variant": "O2"}, "variant='O2': unknown (known: O1, C2, O4, custom)"),
        (
            {"variant": "custm"},
            "variant='custm': unknown; did you mean custom? (known: O1, C2, O4, custom)",
        ),
        ({"variant": None}, "variant=None: unknown (known: O1, C2, O4, custom)"),
        (
            {"scope": "micro-batch"},
            "scope='micro-batch': unknown; did you mean micro_batch? (known: batch, micro_batch)",
        ),
        ({"adaptive": 1}, "adaptive=1: unknown (known: True, False)"),
        ({"base_estimator": 3}, "base_estimator=3: must be a name"),
        (
            {"attenuate": 0.8},
            "attenuate=0.8: has no effect with variant=O1, allowed: variant=C2 or O4",
        ),
        (
            {"variant": "O4", "amplify": 2},
            "amplify=2: has no effect with variant=O4, allowed: variant=O1 or C2",
        ),
        (
            {"alpha": 0.1},
            "alpha=0.1: has no effect with adaptive=False, allowed: adaptive=True",
        ),
        (
            {"quadrant_weights": {"positive_high": 2}},
            "quadrant_weights={'positive_high': 2}: has no effect with variant=O1, "
            "allowed: variant=custom",
        ),
        (
            {"variant": "custom"},
            "quadrant_weights=None: variant=custom needs a mapping of positive_high, "
            "positive_low, negative_high, negative_low to weights",
        ),
        (
            {"variant": "custom", "quadrant_weights": {"positive_hi": 2}},
            "quadrant_weights='positive_hi': unknown; did you mean positive_high? (known: "
            "positive_high, positive_low, negative_high, negative_low)",
        ),
        (
            {"variant": "custom", "quadrant_weights": {"negative_low": 0}},
            "quadrant_weights.negative_low=0: must be a finite number > 0",
        ),
        (
            {"variant": "custom", "quadrant_weights": 2},
            "quadrant_weights=2: must be a mapping of weights",
        ),
        (
            {"variant": "custom", "quadrant_weights": {"positive_high": 2}, "adaptive": True},
            "adaptive=True: moves W and M, which variant=custom has not",
        ),
        (
            {"adaptive": True, "attenuate_min": 0.3},
            "attenuate_min=0.3: has no effect with variant=O1, allowed: variant=C2 or O4",
        ),
        (
            {"adaptive": True, "variant": "O4", "amplify_max": 3},
            "amplify_max=3: has no effect with variant=O4, allowed: variant=O1 or C2",
        ),
        (
            {"adaptive": True, "amplify": 1.6},
            "amplify_max=1.5: must be a finite number >= 1.6",
        ),
        (
            {"adaptive": True, "variant": "O4", "attenuate": 0.4},
            "attenuate_min=0.5: must be a finite number in (0, 0.4]",
        ),
    ],
)
def test_settings_that_do_not_go_together_say_what_is_allowed(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        StareConfig.from_mapping(settings)
    assert str(caught.value) == f"algorithm.stare.{message}"


@pytest.mark.parametrize(
    ("settings", "absent"),
    [
        ({}, {"attenuate", "quadrant_weights", "alpha", "amplify_max", "attenuate_min"}),
        ({"variant": "C2", "adaptive": True}, {"quadrant_weights"}),
        (
            {"variant": "O4", "adaptive": True, "alpha": 0.1},
            {"amplify", "amplify_max", "quadrant_weights"},
        ),
        (
            {"variant": "custom", "quadrant_weights": {"positive_low": 0.9}},
            {"amplify", "attenuate", "alpha", "amplify_max", "attenuate_min"},
        ),
    ],
)
def test_the_settings_with_an_effect_make_the_same_configuration(
    settings: dict[str, Any], absent: set[str]
) -> None:
    config = StareConfig.from_mapping(settings)
    assert set(KNOWN) - set(config.to_mapping()) == absent
    assert StareConfig.from_mapping(config.to_mapping()) == config
