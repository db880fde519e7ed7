"""What the calls of a trajectory came to, and of a batch, for the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from verl_stare.sandbox.result import ExecutionResult


@dataclass
class Tally:
    """Of one trajectory. Each call is counted once under its outcome.

    Attributes:
        calls: that the model wrote, whatever became of them.
        ok, error, timeout, killed, output, infrastructure: by the status of what ran.
        malformed: that could not be read, or named no tool.
        dropped: beyond what a turn or a trajectory may call.
        seconds: on the clock, of what ran.
        void: turns that neither called nor answered.
        masked: 1 if the trajectory is left out of the loss.
    """

    calls: int = 0
    ok: int = 0
    error: int = 0
    timeout: int = 0
    killed: int = 0
    output: int = 0
    infrastructure: int = 0
    malformed: int = 0
    dropped: int = 0
    seconds: float = 0.0
    void: int = 0
    masked: int = 0

    def add(self, result: ExecutionResult) -> None:
        """Count a call that ran."""
        self.calls += 1
        self.seconds += result.wall_s
        setattr(self, result.status, getattr(self, result.status) + 1)

    def as_dict(self) -> dict[str, float]:
        """By name."""
        return asdict(self)


# Where the agent loop leaves it, among the fields of a trajectory.
TALLY = "stare_tool_tally"
# Shares of the calls.
_OUTCOMES = ("ok", "error", "timeout", "killed", "output", "infrastructure", "malformed", "dropped")


def tool_metrics(tallies: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Metrics of a batch of trajectories:

    - `tools/calls/mean`, `/max`: calls a trajectory;
    - `tools/called`: share of trajectories with one;
    - `tools/ok`, `/error`, `/timeout`, `/killed`, `/output`, `/infrastructure`, `/malformed`,
      `/dropped`: shares of the calls, which sum to 1; left out where there is no call;
    - `tools/seconds/mean`: on the clock, a call that ran;
    - `tools/void_turns`: share of trajectories with one; `tools/masked`: left out of the loss.

    Empty without trajectories.
    """
    rows = list(tallies)
    if not rows:
        return {}
    calls = sum(row["calls"] for row in rows)
    metrics = {
        "tools/calls/mean": calls / len(rows),
        "tools/calls/max": max(row["calls"] for row in rows),
        "tools/called": sum(row["calls"] > 0 for row in rows) / len(rows),
        "tools/void_turns": sum(row["void"] > 0 for row in rows) / len(rows),
        "tools/masked": sum(row["masked"] for row in rows) / len(rows),
    }
    if calls:
        metrics |= {f"tools/{name}": sum(row[name] for row in rows) / calls for name in _OUTCOMES}
        ran = calls - sum(row["malformed"] + row["dropped"] for row in rows)
        seconds = sum(row["seconds"] for row in rows)
        metrics["tools/seconds/mean"] = seconds / ran if ran else 0.0
    return metrics
