"""The process that runs a model's code, from its fork to its end.

Part of the program inside the jail; see `zygote`.
"""

from __future__ import annotations

import array
import contextlib
import io
import json
import math
import os
import resource
import signal
import socket
import sys
import threading
from typing import Any, NoReturn

from verl_stare.sandbox import confine
from verl_stare.sandbox.notebook import new_namespace, run_cell

PACKET = 1 << 16
# Exit code of a child that could not be confined, and has run nothing.
SETUP_FAILED = 70

# What an interpreter does at its end; a private name, since there is no other.
_join_threads: Any = getattr(threading, "_shutdown")  # noqa: B009


def run(inbox: socket.socket, program: bytes, parent: int) -> NoReturn:
    """In the child: confine this process, wait for code, and run it."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    confine.prctl(confine.PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(SETUP_FAILED)
    confine.not_dumpable()
    os.setsid()
    # Out of the way of the numbers that it gets.
    moved = inbox.fileno() if inbox.fileno() > 15 else _moved_up(inbox.fileno())
    inbox = socket.socket(fileno=moved)
    os.closerange(3, moved)
    os.closerange(moved + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    confine.filter_system_calls(program)
    message, descriptors = receive(inbox)
    if not message:
        os._exit(0)
    request = json.loads(message)
    inbox.close()
    source = _read_all(descriptors[0])
    cells = _own_descriptors(descriptors)
    confine.limit(request["run"], request["session"])
    namespace = new_namespace()
    if cells is None:
        _end(_execute(source, namespace))
    _serve_cells(cells, namespace)


def _execute(source: bytes, namespace: dict[str, Any]) -> int:
    return run_cell(source.decode("utf-8", "surrogatepass"), namespace)


def _end(code: int) -> NoReturn:
    """As an interpreter ends: after the other threads, with all that was written."""
    try:
        _join_threads()
    except BaseException:
        code = code or 1
    _flush()
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()


def _serve_cells(channel: socket.socket, namespace: dict[str, Any]) -> NoReturn:
    while True:
        message, descriptors = receive(channel)
        if not message:
            _end(0)
        source = _read_all(descriptors[0])
        os.close(descriptors[0])
        before = _cpu_seconds()
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        cell = json.loads(message)
        soft = math.ceil(before + cell["cpu_s"])
        resource.setrlimit(resource.RLIMIT_CPU, (min(soft, hard), hard))
        code = _execute(source, namespace)
        _flush()
        done = {"cell": cell["cell"], "exit_code": code, "cpu_s": _cpu_seconds() - before}
        channel.send(json.dumps(done).encode())


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _read_all(descriptor: int) -> bytes:
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        return file.read()


def _own_descriptors(descriptors: list[int]) -> socket.socket | None:
    """0, 1 and 2, and in a session 3; no others."""
    # Moved out of the way first: any of them may have one of these numbers.
    wanted = [os.open(os.devnull, os.O_RDONLY), *descriptors[1:]]
    high = [_moved_up(descriptor) for descriptor in wanted]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number, inheritable=number < 3)
    os.closerange(len(high), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return socket.socket(fileno=3) if len(high) > 3 else None


def _moved_up(descriptor: int) -> int:
    """A copy whose number is above those that the child's own get."""
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD, 16)


def reopen_streams() -> None:
    """Make the interpreter's streams over 0, 1 and 2, for the whole life of the processes."""
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding="utf-8", errors="replace", closefd=False)
    # Unbuffered, as `python -u`, so that a killed process has written what it printed.
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = io.TextIOWrapper(
            io.FileIO(number, "w", closefd=False),
            encoding="utf-8",
            errors="backslashreplace",
            write_through=True,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def receive(channel: socket.socket, flags: int = 0) -> tuple[bytes, list[int]]:
    """A message and the descriptors that came with it; an empty one at the end of the socket."""
    message, ancillary, _, _ = channel.recvmsg(PACKET, socket.CMSG_SPACE(4 * 8), flags)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return message, list(descriptors)
