"""Settings of the Python tool, as its configuration file writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from verl_stare.sandbox.limits import Limits
from verl_stare.sandbox.tiers import AUTO, CHOICES


@dataclass(frozen=True)
class ToolSettings:
    """Attributes:
    tier: of the sandbox, see `tiers`.
    url: of a Sandbox Fusion server, which then runs the code.
    concurrency_per_node: calls at once on a node; None for its cores (64 with a server).
    limits: of each call.
    stateful: variables are kept from call to call of a trajectory.
    mask_infrastructure: trajectories that the sandbox failed are left out of the loss.
    mask_void_turns: so are those of which a turn neither calls a tool nor answers.
    last_call_note: the model is told when no other call will be made.
    """

    tier: str = AUTO
    url: str | None = None
    concurrency_per_node: int | None = None
    limits: Limits = field(default_factory=Limits)
    stateful: bool = False
    mask_infrastructure: bool = True
    mask_void_turns: bool = False
    last_call_note: bool = True

    def __post_init__(self) -> None:
        if self.tier not in CHOICES:
            raise ValueError(f"sandbox tier={self.tier!r}: allowed are {', '.join(CHOICES)}")
        concurrency = self.concurrency_per_node
        whole = isinstance(concurrency, int) and not isinstance(concurrency, bool)
        if concurrency is not None and not (whole and 1 <= concurrency <= 65_536):
            raise ValueError(
                f"sandbox concurrency_per_node={concurrency!r}: allowed is null, or 1 to 65536"
            )
        for key in ("stateful", "mask_infrastructure", "mask_void_turns", "last_call_note"):
            if not isinstance(getattr(self, key), bool):
                raise ValueError(
                    f"sandbox {key}={getattr(self, key)!r}: allowed are true and false"
                )
        if self.url is not None and self.stateful:
            raise ValueError("sandbox stateful=true: a Sandbox Fusion server keeps no variables")

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> ToolSettings:
        """Settings by name; `type`, which is verl's, is passed over.

        Raises:
            ValueError: an unknown name, or a value that is not allowed.
        """
        given = {key: value for key, value in values.items() if key != "type"}
        names = {one.name for one in fields(cls)}
        for key in given:
            if key not in names:
                raise ValueError(
                    f"sandbox setting {key!r} is unknown: allowed are {', '.join(sorted(names))}"
                )
        limits = given.get("limits") or {}
        if not isinstance(limits, Mapping):
            raise ValueError(f"sandbox limits={limits!r}: allowed is a mapping of limits")
        return cls(**{**given, "limits": Limits.from_mapping(dict(limits))})
