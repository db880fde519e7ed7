"""Which tier holds on this machine: each is tried, and what was found is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from verl_stare.sandbox import jail
from verl_stare.sandbox.canary import JailBroken, examine
from verl_stare.sandbox.limits import Limits
from verl_stare.sandbox.outcome import outcome
from verl_stare.sandbox.process import Zygote, ZygoteDied
from verl_stare.sandbox.syscalls import FilterUnavailable

AUTO = "auto"
CHOICES = (AUTO, *jail.TIERS)
# Best first. `none` is never chosen for you.
AUTOMATIC = ("bwrap", "landlock")


class SandboxUnavailable(RuntimeError):
    """No tier that was wanted holds here; the message has the reason of each."""


@dataclass(frozen=True)
class Probe:
    """What came of trying a tier.

    Attributes:
        holds: the canary got nothing.
        detail: why not, or what the canary was kept from.
    """

    tier: str
    holds: bool
    detail: str


def probe(tier: str, limits: Limits | None = None) -> Probe:
    """Build a jail of that tier, and let the canary try it."""
    limits = limits or Limits()
    try:
        zygote = Zygote(jail.build(tier, limits, []))
    except (OSError, ValueError, ZygoteDied, FilterUnavailable) as error:
        return Probe(tier, False, str(error))
    try:
        kept = examine(lambda code: outcome(zygote.run(code, limits), limits), files=tier != "none")
    except (JailBroken, ZygoteDied) as error:
        return Probe(tier, False, str(error))
    finally:
        zygote.close()
    return Probe(tier, True, f"kept from: {', '.join(kept)}")


def choose(wanted: str = AUTO, limits: Limits | None = None) -> tuple[str, list[Probe]]:
    """The best tier that holds, and what came of those that were tried.

    Args:
        wanted: `auto` for bwrap, else landlock; or the name of one.

    Raises:
        SandboxUnavailable: none holds.
        ValueError: no such tier.
    """
    if wanted not in CHOICES:
        raise ValueError(f"sandbox tier={wanted!r}: allowed are {', '.join(CHOICES)}")
    tried = []
    for tier in AUTOMATIC if wanted == AUTO else (wanted,):
        tried.append(probe(tier, limits))
        if tried[-1].holds:
            return tier, tried
    raise SandboxUnavailable(explain(tried))


def explain(tried: Sequence[Probe]) -> str:
    """Why there is no sandbox, tier by tier."""
    reasons = "; ".join(f"{probe.tier}: {probe.detail}" for probe in tried)
    return (
        f"no sandbox holds on this machine ({reasons}). `verl-stare sandbox check` shows more; "
        "a Sandbox Fusion server is the way without one; tier=none runs a model's code with "
        "limits and a system call filter alone"
    )
