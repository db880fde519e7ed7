"""A process in a jail that keeps its variables between cells."""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import socket

from verl_stare.sandbox.limits import Limits
from verl_stare.sandbox.output import Pipes
from verl_stare.sandbox.process import Ended, Zygote, file_of
from verl_stare.sandbox.runner import PACKET


class Session:
    """It has the zygote to itself until it is closed."""

    def __init__(self, zygote: Zygote, limits: Limits) -> None:
        """Raises:
        ZygoteDied: the jail has ended.
        """
        self._zygote = zygote
        self._limits = limits
        self._pipes = Pipes()
        self._cells, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.alive = True
        self._stopped = False
        try:
            with theirs:
                zygote.start(b"", limits, self._pipes, [theirs.fileno()])
        except BaseException:
            self._cells.close()
            self._pipes.close()
            raise

    def run(self, source: bytes) -> Ended:
        """Run a cell. After one that did not come to its end (its `status` is not None) the process
        is gone, and `alive` is False.

        Raises:
            DiedInRun: the jail ended meanwhile.
            ZygoteDied: it, or the process, had ended before.
        """
        self._zygote.check_idle()
        if self._stopped:
            self._zygote.signal(signal.SIGCONT)
        # Another one each time, so that no reply is written ahead of a cell.
        cell = Cell(self._cells, secrets.token_hex(8))
        with file_of(source) as file, contextlib.suppress(OSError):
            message = json.dumps({"cell": cell.name, "cpu_s": self._limits.cpu_s}).encode()
            socket.send_fds(self._cells, [message], [file])
        ended = self._zygote.watch(self._pipes, self._limits, cell)
        self.alive = ended.status is None
        if self.alive:
            # Its threads would go on, with nobody to look at what they use.
            self._zygote.signal(signal.SIGSTOP)
            self._stopped = True
        return ended

    def close(self) -> None:
        """End the process; the zygote is free again.

        Raises:
            ZygoteDied: the jail has ended, or cannot end it.
        """
        self._cells.close()
        try:
            self._zygote.stop()
        finally:
            self._pipes.close()


class Cell:
    """One cell that runs; its process answers over the socket when it has come to its end."""

    def __init__(self, channel: socket.socket, name: str) -> None:
        self.name = name
        self._channel = channel

    def fileno(self) -> int:
        """Of the socket."""
        return self._channel.fileno()

    def read(self, ended: Ended) -> bool:
        """Read what the process says, which is not to be trusted; False if it says nothing that it
        should."""
        try:
            done = json.loads(self._channel.recv(PACKET))
            code, seconds = done["exit_code"], float(done["cpu_s"])
            right = done["cell"] == self.name and type(code) is int and 0 <= code < 256
            if not right or not 0.0 <= seconds < 1e9:
                return False
        except (OSError, ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
            return False
        ended.exit_code, ended.cpu_s = code, seconds
        return True
