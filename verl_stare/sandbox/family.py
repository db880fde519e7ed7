"""The processes of a jail, as the kernel shows them outside."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_TICK = 1 / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """A process and its descendants, as far as the kernel tells."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{one}/task/{one}/children").read_text()
            found += map(int, children.split())
    return found


def usage(pid: int) -> tuple[int, float]:
    """The most threads that a process of a family has, and the processor seconds of all."""
    threads, ticks = 0, 0
    for one in family(pid):
        with contextlib.suppress(OSError, ValueError):
            stat = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            threads = max(threads, int(stat[17]))
            ticks += int(stat[11]) + int(stat[12])
    return threads, ticks * _TICK
