"""The processes of a jail, as the kernel shows them outside."""

from __future__ import annotations

import contextlib
from pathlib import Path


def family(pid: int) -> list[int]:
    """A process and its descendants, as far as the kernel tells."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{one}/task/{one}/children").read_text()
            found += map(int, children.split())
    return found


def most_threads(pid: int) -> int:
    """The most threads that a process of a jail has."""
    most = 0
    for one in family(pid):
        with contextlib.suppress(OSError, ValueError):
            stat = Path(f"/proc/{one}/stat").read_text()
            most = max(most, int(stat.rpartition(")")[2].split()[17]))
    return most
