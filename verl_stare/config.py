"""The settings of STARE: the only home of their defaults, their ranges and their error messages."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

PREFIX = "algorithm.stare"


class ConfigError(ValueError):
    """A setting that cannot be used. The message is one line: key, value and what is allowed."""


@dataclass(frozen=True)
class StareConfig:
    """Settings under `algorithm.stare`, validated when made (arXiv 2606.19236, §4 and appendix).

    Attributes:
        target_entropy: H_tgt, nats, >= 0. Weights act only while the token-mean entropy of the
            batch is below it; 0 keeps the gate closed, which is the base algorithm bit for bit.
        top_fraction: P, in [0, 1]: the share of the positive-advantage response tokens of the
            batch that counts as highly surprising.
        amplify: W, >= 1: factor on the advantage of those tokens while the gate is open.

    Raises:
        ConfigError: a value has the wrong type or is out of range.
    """

    target_entropy: float = 0.3
    top_fraction: float = 0.1
    amplify: float = 1.1

    def __post_init__(self) -> None:
        _check_number("target_entropy", self.target_entropy, 0.0, math.inf)
        _check_number("top_fraction", self.top_fraction, 0.0, 1.0)
        _check_number("amplify", self.amplify, 1.0, math.inf)

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> StareConfig:
        """Build from the mapping a user wrote under `algorithm.stare`.

        Raises:
            ConfigError: a key is unknown (the nearest known one is named) or a value is bad.
        """
        known = [field.name for field in fields(cls)]
        for key in settings:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ConfigError(
                    f"{PREFIX}.{key}={settings[key]!r}: unknown key{hint} "
                    f"(known: {', '.join(known)})"
                )
        return cls(**settings)


def _check_number(key: str, value: object, low: float, high: float) -> None:
    # bool is an int to Python, but `target_entropy: true` is a mistake.
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if math.isfinite(number) and low <= number <= high:
        return
    allowed = f">= {low:g}" if high == math.inf else f"in [{low:g}, {high:g}]"
    raise ConfigError(f"{PREFIX}.{key}={value!r}: must be a finite number {allowed}")
