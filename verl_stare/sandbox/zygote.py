"""The process inside the jail: loads numpy and sympy once, then forks one process a call.

Runs by itself, as `python -I -c` of the sources of its modules, in whatever jail its tier has built
around it. It never runs a model's code: the child does (`runner`), which has the limits, the system
call filter, and no file descriptor but its own input and output. It ends when its control socket
does, and its child with it.

Messages are JSON, one a packet::

    -> {settings}                                   once
    <- {"ready": true}
    -> {"run": {limits}, "session": bool}           with descriptors: code, stdout, stderr[, cells]
    <- {"ended": wait status, "cpu_s", "max_rss", "stopped": why this process ended it, or null}
    <- {"clean": true}                              before the next run, else it takes none
    -> {"signal": number}                          for the child

In a session the child stays, stopped from cell to cell, and takes cells over a socket of its own:
`{"cell", "cpu_s"}` with a descriptor of the code, answered by `{"cell", "exit_code", "cpu_s"}`.
"""

from __future__ import annotations

import base64
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import stat
import sys
import traceback
from typing import Any

from verl_stare.sandbox import confine, runner

MOST_SPARE_DEATHS = 10
_LOOK_MS = 50


def main(descriptor: int) -> None:
    """Serve the control socket of that number until it ends."""
    # With whoever started it, even if a fork of that keeps the socket open.
    confine.prctl(confine.PDEATHSIG, signal.SIGKILL)
    control = socket.socket(fileno=descriptor)
    settings = json.loads(control.recv(runner.PACKET))
    sys.path += [path for path in settings["paths"] if path not in sys.path]
    for name in settings["preload"]:
        importlib.import_module(name)
    os.umask(0o077)
    os.chdir(settings["workdir"])
    if settings["readable"] is not None:
        confine.landlock(settings["readable"], settings["devices"])
    confine.drop_capabilities()
    # For the children, which find them ready.
    runner.reopen_streams()
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
        # Sockets, since a pipe can be opened through /proc where there is one.
        self.wakeups, self.wakeup = socket.socketpair()
        self.wakeups.setblocking(False)
        self.wakeup.setblocking(False)

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wakeup.fileno())
        self._fork()
        self._send({"ready": True})
        poller = select.poll()
        poller.register(self.control, select.POLLIN)
        poller.register(self.wakeups, select.POLLIN)
        while True:
            poller.poll(_LOOK_MS if self.child and self.counted else None)
            with contextlib.suppress(BlockingIOError):
                self.wakeups.recv(1 << 10)
            self._reap()
            self._count_entries()
            if not self._take():
                self._signal(signal.SIGKILL)
                return

    def _take(self) -> bool:
        """Act on a message, if there is one; False at the end of the socket."""
        try:
            message, descriptors = runner.receive(self.control, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        if not message:
            return False
        request = json.loads(message)
        if "signal" in request:
            self._signal(request["signal"])
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
            runner.run(theirs, self.filter, parent)
        except BaseException:
            # Of the set-up, since the code's own exceptions are its output.
            with contextlib.suppress(BaseException):
                os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(runner.SETUP_FAILED)

    def _signal(self, number: int) -> None:
        if self.child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child, number)

    def _count_entries(self) -> None:
        """The kernel limits the size of the work directory, and not the number of its files."""
        for folder in self.counted if self.child else []:
            found = os.statvfs(folder)
            if found.f_files - found.f_ffree > self.entries and self.stopped is None:
                self.stopped = "entries"
                self._signal(signal.SIGKILL)

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
