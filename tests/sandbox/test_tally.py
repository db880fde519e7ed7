"""What calls came to, in the log."""

import pytest

from verl_stare.sandbox import ExecutionResult
from verl_stare.sandbox.tally import Tally, tool_metrics


def test_each_call_is_counted_once() -> None:
    tally = Tally()
    for status in ("ok", "ok", "timeout", "error", "killed", "output", "infrastructure"):
        tally.add(ExecutionResult("", "", status, wall_s=0.5))
    counted = tally.as_dict()
    assert counted["calls"] == 7
    assert counted["ok"] == 2
    assert counted["seconds"] == 3.5
    assert sum(counted[name] for name in ("ok", "timeout", "error", "killed", "output")) == 6


def test_metrics_of_a_batch() -> None:
    rows = [
        Tally(calls=3, ok=1, error=1, malformed=1, seconds=1.0),
        Tally(calls=1, dropped=1, void=1, masked=1),
        Tally(),
        Tally(calls=4, ok=2, timeout=1, infrastructure=1, seconds=3.0),
    ]
    metrics = tool_metrics(row.as_dict() for row in rows)
    assert metrics == {
        "tools/calls/mean": 2.0,
        "tools/calls/max": 4,
        "tools/called": 0.75,
        "tools/void_turns": 0.25,
        "tools/masked": 0.25,
        "tools/ok": 3 / 8,
        "tools/error": 1 / 8,
        "tools/timeout": 1 / 8,
        "tools/killed": 0.0,
        "tools/output": 0.0,
        "tools/infrastructure": 1 / 8,
        "tools/malformed": 1 / 8,
        "tools/dropped": 1 / 8,
        "tools/seconds/mean": pytest.approx(4 / 6),
    }


def test_nothing_is_made_up() -> None:
    assert tool_metrics([]) == {}
    without_calls = tool_metrics([Tally(void=1).as_dict()])
    assert set(without_calls) == {
        f"tools/{n}" for n in ("calls/mean", "calls/max", "called", "void_turns", "masked")
    }
    assert tool_metrics([Tally(calls=1, dropped=1).as_dict()])["tools/seconds/mean"] == 0.0
