"""The settings of STARE: the only home of their defaults, their ranges and their error messages."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

PREFIX = "algorithm.stare"

VARIANTS = ("O1", "C2", "O4", "custom")
SCOPES = ("batch", "micro_batch")
QUADRANTS = ("positive_high", "positive_low", "negative_high", "negative_low")

# Settings that only act together with another one, which the error message then names.
_AMPLIFIES = ("variant", ("O1", "C2"))
_ATTENUATES = ("variant", ("C2", "O4"))
_ADAPTS = ("adaptive", (True,))
_NEEDS: dict[str, tuple[tuple[str, tuple[object, ...]], ...]] = {
    "amplify": (_AMPLIFIES,),
    "attenuate": (_ATTENUATES,),
    "quadrant_weights": (("variant", ("custom",)),),
    "alpha": (_ADAPTS,),
    "amplify_max": (_ADAPTS, _AMPLIFIES),
    "attenuate_min": (_ADAPTS, _ATTENUATES),
}


class ConfigError(ValueError):
    """A setting that cannot be used. The message is one line: key, value and what is allowed."""


@dataclass(frozen=True)
class StareConfig:
    """Settings under `algorithm.stare`, validated when made (arXiv 2606.19236, §4 and appendix).

    Attributes:
        target_entropy: H_tgt, nats, >= 0. Weights act only while the token-mean entropy of the
            batch is below it; 0 keeps the gate closed, which is the base algorithm bit for bit.
        top_fraction: P, in [0, 1]: the share of the response tokens of each sign of advantage
            that counts as highly surprising.
        variant: which quadrants (sign of advantage x high or low surprisal) are weighted. O1:
            `amplify` on positive_high. O4: `attenuate` on negative_high. C2: both. custom:
            `quadrant_weights`.
        amplify: W, >= 1, initially.
        attenuate: M, in (0, 1], initially.
        quadrant_weights: for `variant=custom`, the weight (> 0) of each quadrant named; the others
            have 1.
        adaptive: move W and M by `alpha` after each batch, outwards while the batch entropy is
            below the target and back to 1 while it is above.
        alpha: step of the schedule, > 0.
        amplify_max: bound of W, >= amplify.
        attenuate_min: bound of M, in (0, attenuate].
        scope: `batch` selects over the whole training batch; `micro_batch` inside each micro-batch
            of the actor, as the authors' released code does.
        base_estimator: verl's advantage estimator that is reweighted by `adv_estimator=stare`.

    Raises:
        ConfigError: a value has the wrong type or is out of range.
    """

    target_entropy: float = 0.3
    top_fraction: float = 0.1
    variant: str = "O1"
    amplify: float = 1.1
    attenuate: float = 0.9
    quadrant_weights: Mapping[str, float] | None = None
    adaptive: bool = False
    alpha: float = 0.01
    amplify_max: float = 1.5
    attenuate_min: float = 0.5
    scope: str = "batch"
    base_estimator: str = "grpo"

    def __post_init__(self) -> None:
        _check_number("target_entropy", self.target_entropy, 0.0)
        _check_number("top_fraction", self.top_fraction, 0.0, 1.0)
        _check_choice("variant", self.variant, VARIANTS)
        _check_number("amplify", self.amplify, 1.0)
        _check_number("attenuate", self.attenuate, 0.0, 1.0, open_low=True)
        _check_choice("adaptive", self.adaptive, (True, False))
        _check_number("alpha", self.alpha, 0.0, open_low=True)
        # Without the schedule the bounds play no part.
        _check_number("amplify_max", self.amplify_max, self.amplify if self.adaptive else 1.0)
        _check_number(
            "attenuate_min",
            self.attenuate_min,
            0.0,
            self.attenuate if self.adaptive else 1.0,
            open_low=True,
        )
        _check_choice("scope", self.scope, SCOPES)
        if not isinstance(self.base_estimator, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"{PREFIX}.base_estimator={self.base_estimator!r}: must be a name")
        _check_quadrant_weights(self.quadrant_weights, self.variant)
        if self.adaptive and self.variant == "custom":
            raise ConfigError(
                f"{PREFIX}.adaptive=True: moves W and M, which variant=custom has not"
            )

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> StareConfig:
        """Build from the mapping a user wrote under `algorithm.stare`.

        Raises:
            ConfigError: a key is unknown (the nearest known one is named), a value is bad, or a
                setting would have no effect because of another one.
        """
        known = [field.name for field in fields(cls)]
        for key in settings:
            if key not in known:
                raise ConfigError(
                    f"{PREFIX}.{key}={settings[key]!r}: unknown key{_hint(key, known)} "
                    f"(known: {', '.join(known)})"
                )
        config = cls(**settings)
        for key in _NEEDS:
            unmet = config._unmet(key) if settings.get(key) is not None else None
            if unmet is not None:
                other, values = unmet
                raise ConfigError(
                    f"{PREFIX}.{key}={settings[key]!r}: has no effect with "
                    f"{other}={getattr(config, other)}, allowed: {other}="
                    f"{' or '.join(map(str, values))}"
                )
        return config

    def to_mapping(self) -> dict[str, Any]:
        """The settings that have an effect; `from_mapping` makes an equal configuration of them."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.quadrant_weights is not None:
            settings["quadrant_weights"] = dict(self.quadrant_weights)
        return {key: value for key, value in settings.items() if self._unmet(key) is None}

    def _unmet(self, key: str) -> tuple[str, tuple[object, ...]] | None:
        """The setting without whose right value `key` has no effect; None if it has one."""
        needs = _NEEDS.get(key, ())
        return next((need for need in needs if getattr(self, need[0]) not in need[1]), None)


def _check_number(
    key: str, value: object, low: float, high: float = math.inf, *, open_low: bool = False
) -> None:
    # bool is an int to Python, but `target_entropy: true` is a mistake.
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if math.isfinite(number) and low <= number <= high and not (open_low and number == low):
        return
    if high == math.inf:
        allowed = f"{'>' if open_low else '>='} {low:g}"
    else:
        allowed = f"in {'(' if open_low else '['}{low:g}, {high:g}]"
    raise ConfigError(f"{PREFIX}.{key}={value!r}: must be a finite number {allowed}")


def _check_choice(key: str, value: object, known: Sequence[object]) -> None:
    # 1 equals True to Python, but `adaptive: 1` is a mistake.
    if any(value == choice and type(value) is type(choice) for choice in known):
        return
    names = [str(choice) for choice in known]
    raise ConfigError(
        f"{PREFIX}.{key}={value!r}: unknown{_hint(value, names)} (known: {', '.join(names)})"
    )


def _check_quadrant_weights(weights: object, variant: str) -> None:
    if weights is None:
        if variant == "custom":
            raise ConfigError(
                f"{PREFIX}.quadrant_weights=None: variant=custom needs a mapping of "
                f"{', '.join(QUADRANTS)} to weights"
            )
        return
    if not isinstance(weights, Mapping) or not weights:
        raise ConfigError(f"{PREFIX}.quadrant_weights={weights!r}: must be a mapping of weights")
    for name, weight in cast(Mapping[object, object], weights).items():
        _check_choice("quadrant_weights", name, QUADRANTS)
        _check_number(f"quadrant_weights.{name}", weight, 0.0, open_low=True)


def _hint(value: object, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(value), known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
