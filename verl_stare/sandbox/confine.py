"""What holds a process: Landlock, capabilities, the system call filter, and limits.

Part of the program inside the jail; see `zygote`.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import sys
from typing import Any

# The number of the child's process in the filter, which is not known before it is forked.
OWN_PID = 0x5EC0CA11
# Of a filter: a code, two jumps, an operand.
INSTRUCTION_SIZE = 8
# Cells of one session times the limit of processor seconds of one.
SESSION_CELLS = 64
PDEATHSIG = 1
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 4, 22, 24, 38
_LAST_CAPABILITY = 63

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


def landlock(readable: list[str], devices: list[str]) -> None:
    """Nothing but these may be opened; no TCP; no signal to a process outside, as far as the
    kernel's version knows these."""
    from py_landlock import AccessFs, Landlock

    rules = Landlock(strict=False)
    file_access = AccessFs.READ_FILE | AccessFs.EXECUTE
    for path in readable:
        folder_access = AccessFs.READ_DIR if os.path.isdir(path) else AccessFs(0)
        rules.add_path_rule(path, access=file_access | folder_access)
    rules.add_path_rule(*devices, access=AccessFs.READ_FILE | AccessFs.WRITE_FILE)
    rules.apply()


def drop_capabilities() -> None:
    """None are left, and none can come back."""
    for capability in range(_LAST_CAPABILITY + 1):
        # Fails at the first that this kernel does not know, and where there are none to drop.
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if _libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def limit(limits: dict[str, Any], session: bool) -> None:
    """The kernel's limits, of this process; a session has the processor time of many cells."""
    for name, bound in (
        (resource.RLIMIT_AS, limits["memory"]),
        (resource.RLIMIT_NOFILE, limits["files"]),
        (resource.RLIMIT_FSIZE, limits["file_size"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, 1024),
        (resource.RLIMIT_MEMLOCK, 64 << 10),
    ):
        hard = resource.getrlimit(name)[1]
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(name, (bound, bound))
    seconds = math.ceil(limits["cpu_s"])
    most = seconds * SESSION_CELLS if session else seconds
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, most + 1))


def operand(value: int) -> bytes:
    """A number as the instructions of a filter hold it."""
    return value.to_bytes(4, sys.byteorder)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def filter_system_calls(program: bytes) -> None:
    """Put this process, and all that it starts, under a compiled filter (see `syscalls`)."""
    instructions = program.replace(operand(OWN_PID), operand(os.getpid()))
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    filter_ = _Program(len(instructions) // INSTRUCTION_SIZE, ctypes.addressof(buffer))
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    prctl(_PR_SET_SECCOMP, 2, ctypes.addressof(filter_))


def not_dumpable() -> None:
    """No core dump, wherever the system would send one."""
    prctl(_PR_SET_DUMPABLE, 0)


def prctl(option: int, *arguments: int) -> None:
    """Raises:
    OSError: the kernel refuses.
    """
    values = [*arguments, 0, 0, 0, 0][:4]
    if _libc.prctl(option, *values) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")
