"""The process inside the jail: loads numpy and sympy once, then forks one process a call.

Runs by itself, as `python -I -c` of this source, in whatever jail its tier has built around it. It
never runs a model's code: the child does, which has the limits, the system call filter, and no file
descriptor but its own input and output. It ends when its control socket does, and its child with
it.

Messages are JSON, one a packet::

    -> {settings}                                   once
    <- {"ready": true}
    -> {"run": {limits}, "session": bool}           with descriptors: code, stdout, stderr[, cells]
    <- {"ended": wait status, "cpu_s", "max_rss", "stopped": why this process ended it, or null}
    <- {"clean": true}                              before the next run, else it takes none
    -> {"kill": true}

In a session the child stays, and takes cells over a socket of its own: `{"cell", "cpu_s"}` with a
descriptor of the code, answered by `{"cell", "exit_code", "cpu_s"}`.
"""

from __future__ import annotations

import array
import base64
import contextlib
import ctypes
import gc
import importlib
import json
import math
import os
import resource
import select
import signal
import socket
import stat
import sys
import threading
import traceback
from typing import Any, NoReturn

from verl_stare.sandbox.notebook import new_namespace, run_cell

PACKET = 1 << 16
# The number of the child's process in the filter, which is not known before it is forked.
OWN_PID = 0x5EC0CA11
# Cells of one session times the limit of processor seconds of one.
SESSION_CELLS = 64
# Exit code of a child that could not be confined, and has run nothing.
SETUP_FAILED = 70
MOST_SPARE_DEATHS = 10
_LOOK_MS = 50
# Of a filter: a code, two jumps, an operand.
INSTRUCTION_SIZE = 8
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 4, 24
_LAST_CAPABILITY = 63

# What an interpreter does at its end; a private name, since there is no other.
_join_threads: Any = getattr(threading, "_shutdown")  # noqa: B009
_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


def main(descriptor: int) -> None:
    """Serve the control socket of that number until it ends."""
    # With whoever started it, even if a fork of that keeps the socket open.
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    control = socket.socket(fileno=descriptor)
    settings = json.loads(control.recv(PACKET))
    sys.path += [path for path in settings["paths"] if path not in sys.path]
    for name in settings["preload"]:
        importlib.import_module(name)
    os.umask(0o077)
    os.chdir(settings["workdir"])
    if settings["readable"] is not None:
        _landlock(settings["readable"], settings["devices"])
    _drop_capabilities()
    # For the children, which find them ready.
    _reopen_streams()
    gc.collect()
    gc.freeze()
    _Zygote(control, settings).serve()


class _Zygote:
    def __init__(self, control: socket.socket, settings: dict[str, Any]) -> None:
        self.control = control
        self.filter = base64.b64decode(settings["filter"])
        self.writable = settings["writable"]
        self.counted = settings["counted"]
        # The process that runs code, and the one that is ready to.
        self.child = 0
        self.entries = 0
        self.stopped: str | None = None
        self.spare: tuple[int, socket.socket] | None = None
        self.spare_deaths = 0
        self.wakeups, self.wakeup = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(self.wakeups, False)

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wakeup)
        self._fork()
        self._send({"ready": True})
        poller = select.poll()
        poller.register(self.control, select.POLLIN)
        poller.register(self.wakeups, select.POLLIN)
        while True:
            poller.poll(_LOOK_MS if self.child and self.counted else None)
            with contextlib.suppress(BlockingIOError):
                os.read(self.wakeups, 1 << 10)
            self._reap()
            self._count_entries()
            if not self._take():
                self._kill()
                return

    def _take(self) -> bool:
        """Act on a message, if there is one; False at the end of the socket."""
        try:
            message, descriptors = _receive(self.control, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        if not message:
            return False
        request = json.loads(message)
        if "kill" in request:
            self._kill()
            return True
        self.stopped, self.entries = None, request["run"]["entries"]
        if self.spare is None:
            self._fork()
        assert self.spare is not None
        self.child, channel = self.spare
        self.spare = None
        # One that died meanwhile ends as a run that was killed.
        with contextlib.suppress(OSError):
            socket.send_fds(channel, [message], descriptors)
        channel.close()
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _fork(self) -> None:
        """Make a process that waits for code, since a fork takes as long as a short program."""
        self._new_randomness()
        parent = os.getpid()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        child = os.fork()
        if child:
            theirs.close()
            self.spare = child, ours
            return
        try:
            ours.close()
            _run(theirs, self.filter, parent)
        except BaseException:
            # Of the set-up, since the code's own exceptions are its output.
            with contextlib.suppress(BaseException):
                os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(SETUP_FAILED)

    def _kill(self) -> None:
        if self.child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child, signal.SIGKILL)

    def _count_entries(self) -> None:
        """The kernel limits the size of the work directory, and not the number of its files."""
        for folder in self.counted if self.child else []:
            found = os.statvfs(folder)
            if found.f_files - found.f_ffree > self.entries and self.stopped is None:
                self.stopped = "entries"
                self._kill()

    def _reap(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.spare is not None and pid == self.spare[0]:
                # One may be killed; that none lives is this machine's fault.
                self.spare[1].close()
                self.spare = None
                self.spare_deaths += 1
                if self.spare_deaths > MOST_SPARE_DEATHS:
                    raise RuntimeError("processes cannot be confined, or die at once")
                self._fork()
            if pid != self.child:
                continue
            self.spare_deaths = 0
            self.child = 0
            # Before cleaning up: code must not be able to make its run a failure of the sandbox by
            # what it leaves behind. If that cannot be removed, this jail takes no other run.
            self._send(
                {
                    "ended": status,
                    "cpu_s": used.ru_utime + used.ru_stime,
                    "max_rss": used.ru_maxrss << 10,
                    "stopped": self.stopped,
                }
            )
            for folder in self.writable:
                _empty(folder)
            self._send({"clean": True})
            if self.spare is None:
                self._fork()

    @staticmethod
    def _new_randomness() -> None:
        """Each call has random numbers of its own; Python's are seeded at the fork."""
        for name in ("numpy.random", "sympy.core.random"):
            if name in sys.modules:
                sys.modules[name].seed()

    def _send(self, message: object) -> None:
        self.control.send(json.dumps(message).encode())


def _receive(channel: socket.socket, flags: int = 0) -> tuple[bytes, list[int]]:
    message, ancillary, _, _ = channel.recvmsg(PACKET, socket.CMSG_SPACE(4 * 8), flags)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return message, list(descriptors)


def _empty(folder: str) -> None:
    """Remove all that a call has left, in any depth and with any modes."""
    mark = os.urandom(8).hex()
    number = 0
    while entries := os.listdir(folder):
        for entry in entries:
            path = os.path.join(folder, entry)
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                os.unlink(path)
                continue
            os.chmod(path, stat.S_IRWXU)
            # What is in it moves up: a path of thousands of folders cannot be named.
            for inner in os.listdir(path):
                number += 1
                os.rename(os.path.join(path, inner), os.path.join(folder, f".{mark}.{number}"))
            os.rmdir(path)


def _landlock(readable: list[str], devices: list[str]) -> None:
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


def _drop_capabilities() -> None:
    for capability in range(_LAST_CAPABILITY + 1):
        # Fails at the first that this kernel does not know, and where there are none to drop.
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if _libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def _run(inbox: socket.socket, program: bytes, parent: int) -> NoReturn:
    """In the child: confine this process, wait for code, and run it."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(SETUP_FAILED)
    # No core dump, wherever the system would send one.
    _prctl(_PR_SET_DUMPABLE, 0)
    os.setsid()
    # Out of the way of the numbers that it gets.
    moved = inbox.fileno() if inbox.fileno() > 15 else _moved_up(inbox.fileno())
    inbox = socket.socket(fileno=moved)
    os.closerange(3, moved)
    os.closerange(moved + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    _filter_system_calls(program)
    message, descriptors = _receive(inbox)
    if not message:
        os._exit(0)
    request = json.loads(message)
    inbox.close()
    source = _read_all(descriptors[0])
    cells = _own_descriptors(descriptors)
    _limit(request["run"], request["session"])
    namespace = new_namespace()
    if cells is None:
        _end(_execute(source, namespace))
    _serve_cells(cells, namespace)


def _limit(limits: dict[str, Any], session: bool) -> None:
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
        message, descriptors = _receive(channel)
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


def _reopen_streams() -> None:
    # They are for the whole life of the processes.
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding="utf-8", errors="replace", closefd=False)
    # By the line, so that a killed process has written what it printed.
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = os.fdopen(
            number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def operand(value: int) -> bytes:
    """A number as the instructions of a filter hold it."""
    return value.to_bytes(4, sys.byteorder)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def _filter_system_calls(program: bytes) -> None:
    instructions = program.replace(operand(OWN_PID), operand(os.getpid()))
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    filter_ = _Program(len(instructions) // INSTRUCTION_SIZE, ctypes.addressof(buffer))
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_SECCOMP, 2, ctypes.addressof(filter_))


def _prctl(option: int, *arguments: int) -> None:
    values = [*arguments, 0, 0, 0, 0][:4]
    if _libc.prctl(option, *values) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")
