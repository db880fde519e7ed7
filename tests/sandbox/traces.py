"""What code could leave behind: processes, descriptors, files, memory."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from verl_stare.sandbox import Pool


@dataclass(frozen=True)
class Traces:
    """Attributes:
    processes: of this process and all that it has started, by number.
    descriptors: that this process has open.
    files: in the folders where code might leave some.
    resident: bytes, of all those processes.
    """

    processes: frozenset[int]
    descriptors: int
    files: frozenset[str]
    resident: int


def descendants(pid: int) -> set[int]:
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        parents.setdefault(parent, []).append(int(stat.parent.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in parents.get(waiting.pop(), []):
            found.add(child)
            waiting.append(child)
    return found


def resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def is_jail(pid: int) -> bool:
    """Whether it is of a jail: bubblewrap's, the zygote, or a process that runs code."""
    try:
        return b"verl_stare.sandbox.zygote" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def strays(within: float = 5.0) -> set[int]:
    """Processes of jails that nobody waits for, whose parent is init, and that stay.

    Jails of other tests, which run at the same time, may be about to end.
    """
    deadline = time.monotonic() + within
    while (found := _orphans()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def _orphans() -> set[int]:
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        if parent == 1 and is_jail(int(folder.name)):
            found.add(int(folder.name))
    return found


def now() -> Traces:
    mine = os.getpid()
    processes = descendants(mine)
    return Traces(
        frozenset(processes),
        len(os.listdir("/proc/self/fd")),
        frozenset(
            str(path)
            for folder in ("/tmp", "/dev/shm", "/var/tmp", "/")
            for path in Path(folder).glob("*leak*")
        ),
        sum(map(resident, [mine, *processes])),
    )


def at_rest(within: float = 10.0) -> Traces:
    """The traces once two looks in a row find the same processes, and each jail is whole.

    A jail forks a process ahead of the next call, which takes a while on a busy machine.
    """
    deadline = time.monotonic() + within
    last = now()
    while True:
        time.sleep(0.03)
        whole = _jails_are_whole(last.processes)
        found = now()
        if (whole and found.processes == last.processes) or time.monotonic() > deadline:
            return found
        last = found


def _jails_are_whole(processes: frozenset[int]) -> bool:
    for pid in processes:
        try:
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            program = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
        except (OSError, IndexError):
            return False
        if parent == os.getpid() and is_jail(pid):
            # bubblewrap's two, the zygote, and the process ahead; or the last two alone.
            whole = 4 if program.endswith(b"bwrap") else 2
            if len(descendants(pid) & processes) + 1 < whole:
                return False
    return True


def settled(pool: Pool, before: Traces, within: float = 5.0) -> Traces:
    """The traces once what was started has had time to end."""
    deadline = time.monotonic() + within
    while True:
        after = now()
        quiet = len(after.processes) <= len(before.processes)
        if (quiet and after.descriptors <= before.descriptors) or time.monotonic() > deadline:
            return after
        time.sleep(0.02)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
