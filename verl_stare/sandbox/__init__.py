"""A sandbox for Python that a model wrote. Imports no verl, ray or torch.

Covered: the code cannot read or write files of this machine, see or touch other processes, start
any, or reach a network; it has limits of time, memory and output; nothing of it is left when it
ends. Not covered: flaws of the kernel itself, timing, and, in the tier landlock, the names and
sizes of files.

    from verl_stare import sandbox
    print(sandbox.run("1 + 1").text())

"""

from __future__ import annotations

import functools
import os

from verl_stare.sandbox.limits import Limits
from verl_stare.sandbox.pool import Pool, PoolSession
from verl_stare.sandbox.result import ExecutionResult
from verl_stare.sandbox.tiers import Probe, SandboxUnavailable, choose, probe

__all__ = [
    "ExecutionResult",
    "Limits",
    "Pool",
    "PoolSession",
    "Probe",
    "SandboxUnavailable",
    "choose",
    "probe",
    "run",
]


@functools.lru_cache(maxsize=1)
def _default_pool(_: int) -> Pool:
    return Pool()


def run(code: str, limits: Limits | None = None) -> ExecutionResult:
    """Run Python in the best sandbox that this machine has.

    Raises:
        SandboxUnavailable: it has none.
    """
    # A fork makes its own.
    return _default_pool(os.getpid()).run(code, limits)
