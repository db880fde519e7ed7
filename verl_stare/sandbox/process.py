"""One zygote in its jail, seen from outside: started, asked, and ended."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verl_stare.sandbox import syscalls
from verl_stare.sandbox.family import family, usage
from verl_stare.sandbox.jail import Jail
from verl_stare.sandbox.lasting import in_lasting_thread
from verl_stare.sandbox.limits import Limits
from verl_stare.sandbox.output import Kept, Pipes
from verl_stare.sandbox.runner import PACKET

if TYPE_CHECKING:
    from verl_stare.sandbox.session import Cell

# What starting may take: numpy and sympy come from a disk that may be slow.
START_SECONDS = 60.0
# A killed process is gone, and its files are removed, well within this.
GRACE_SECONDS = 5.0
# What cleaning may take; a new jail takes less than a second.
CLEAN_SECONDS = 2.0
# Between looks at the number of threads.
LOOK_SECONDS = 0.1
# The kernel's limit is first, where there is one.
_CPU_MARGIN = 0.3
_START = """import sys, types
for name, source in {modules!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = []
    exec(compile(source, name, "exec"), module.__dict__)
sys.modules["verl_stare.sandbox.zygote"].main({descriptor})"""


class ZygoteDied(RuntimeError):
    """The zygote, or its jail, has ended or does not start."""


class DiedInRun(ZygoteDied):
    """It ended while code ran in it."""


@dataclass
class Ended:
    """What one run left behind.

    Attributes:
        status: of wait(2); None if a session's cell came to its end and its process lives.
        exit_code: of such a cell.
        stopped: why it was ended from outside: `wall`, `cpu` (in a session), `output`, `threads`,
            `entries`, `session` (it ended, or broke the rules of a session), or None.
        dropped: bytes of output that were read and not kept.
    """

    status: int | None = None
    exit_code: int | None = None
    stopped: str | None = None
    stdout: str = ""
    stderr: str = ""
    dropped: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    max_rss: int = 0


class Zygote:
    """A started zygote. Not safe to use from two threads at once, but for `close`."""

    def __init__(self, jail: Jail) -> None:
        """Raises:
        ZygoteDied: it did not start; the message has what it said.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        self._owner = os.getpid()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        settings = jail.settings
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if jail.tier == "none":
            # The only tier that would else write where this process is.
            self._folder = tempfile.TemporaryDirectory(prefix="verl-stare-")
            name = self._folder.name
            settings = {**settings, "workdir": name, "writable": [name]}
        program = _START.format(modules=_modules(), descriptor=theirs.fileno())
        command = [*jail.command, sys.executable, "-I", "-B", "-X", "utf8", "-c", program]
        with theirs:
            self._process = in_lasting_thread(
                lambda: subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._log,
                    env=jail.environment,
                    cwd="/",
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            )
        self.pid = self._process.pid
        self._running = False
        self._dirty = False
        self.is_new = True
        try:
            program_bytes = syscalls.compiled(jail.writes)
            filter_ = base64.b64encode(program_bytes).decode()
            self._send({**settings, "filter": filter_})
            self._receive(time.monotonic() + START_SECONDS)
            for pid in family(self.pid):
                # The kernel is to end these before a trainer.
                with contextlib.suppress(OSError):
                    Path(f"/proc/{pid}/oom_score_adj").write_text("700")
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def ready(self) -> bool:
        """Wait until what the last run left is removed; False if that takes too long."""
        if self._dirty:
            try:
                self._dirty = "clean" not in self._receive(time.monotonic() + CLEAN_SECONDS)
            except ZygoteDied:
                return False
        return self.alive and not self._dirty

    def run(self, source: bytes, limits: Limits) -> Ended:
        """Run a program in a process of its own, to its end or its limits.

        Raises:
            DiedInRun: the jail ended meanwhile.
            ZygoteDied: it had ended before.
        """
        with Pipes() as pipes:
            self.start(source, limits, pipes)
            return self.watch(pipes, limits)

    def start(
        self, source: bytes, limits: Limits, pipes: Pipes, more: list[int] | None = None
    ) -> None:
        """Start a program, or with a further descriptor, for its cells, a session.

        Raises:
            ZygoteDied: the jail has ended.
        """
        request = {"run": limits.as_dict(), "session": bool(more)}
        with file_of(source) as file:
            self._send(request, [file, pipes.out_write, pipes.err_write, *(more or [])])
        self.is_new = False
        self._running = True
        pipes.close_write_ends()

    def watch(self, pipes: Pipes, limits: Limits, cell: Cell | None = None) -> Ended:
        """Collect output until the process ends, or, in a session, the cell does.

        Raises:
            DiedInRun: the jail ended meanwhile.
        """
        started = time.monotonic()
        ended = Ended()
        with Kept(pipes, limits.output) as kept:
            self._watch(kept, limits, ended, cell)
            # Nobody else has the other ends.
            kept.drain()
            if kept.dropped and ended.stopped is None:
                ended.stopped = "output"
            ended.dropped = kept.dropped
            ended.stdout, ended.stderr = kept.texts()
        ended.wall_s = time.monotonic() - started
        return ended

    def _watch(self, kept: Kept, limits: Limits, ended: Ended, cell: Cell | None) -> None:
        now = time.monotonic()
        deadline = now + limits.wall_s
        given_up = float("inf")
        look = now + LOOK_SECONDS
        # What the cells before have taken, which the kernel's limit of the process includes.
        before = usage(self.pid)[1] if cell is not None else 0.0
        poller = select.poll()
        # It stays the same if another thread closes this zygote meanwhile.
        control = self._control.fileno()
        for descriptor in (*kept.open, control):
            poller.register(descriptor, select.POLLIN)
        if cell is not None:
            poller.register(cell.fileno(), select.POLLIN)
        while self._running:
            now = time.monotonic()
            if now >= given_up:
                # It is slow to die, or its jail to say so. With the jail it dies in any case.
                self.close()
                self._running, ended.status = False, int(signal.SIGKILL)
                return
            if now >= look and ended.stopped is None:
                look = now + LOOK_SECONDS
                threads, seconds = usage(self.pid)
                if threads > limits.threads:
                    ended.stopped = "threads"
                elif cell is not None and seconds - before > limits.cpu_s + _CPU_MARGIN:
                    ended.stopped, ended.cpu_s = "cpu", seconds - before
            if now >= deadline and ended.stopped is None:
                ended.stopped = "wall"
            if ended.stopped and given_up == float("inf"):
                self.signal(signal.SIGKILL)
                given_up = now + GRACE_SECONDS
            until = given_up if ended.stopped else min(deadline, look)
            for descriptor, _ in poller.poll(max(0.0, until - now) * 1_000 + 1):
                if descriptor == control:
                    self._ended(ended, given_up)
                elif cell is not None and descriptor == cell.fileno():
                    poller.unregister(descriptor)
                    if not cell.read(ended):
                        # It has ended, or tampers with its session.
                        ended.stopped = ended.stopped or "session"
                    elif usage(self.pid)[0] > limits.threads:
                        ended.stopped = ended.stopped or "threads"
                    elif ended.stopped is None:
                        return
                else:
                    kept.read(descriptor)
                    if kept.dropped and ended.stopped is None:
                        ended.stopped = "output"
                    if descriptor not in kept.open:
                        poller.unregister(descriptor)

    def stop(self) -> None:
        """Kill the process that runs, if one does.

        Raises:
            ZygoteDied: the jail has ended, or cannot end it.
        """
        if self._running:
            self.signal(signal.SIGKILL)
            self._ended(Ended(), time.monotonic() + GRACE_SECONDS)

    def signal(self, number: int) -> None:
        """Send a signal to the process that runs.

        Raises:
            DiedInRun: the jail has ended.
        """
        try:
            self._send({"signal": int(number)})
        except ZygoteDied as error:
            raise DiedInRun(str(error)) from error

    def check_idle(self) -> None:
        """Raises:
        ZygoteDied: the jail, or the process of a session, has ended though no code ran.
        """
        if self._said_something(0.0) or not self.alive:
            raise ZygoteDied("the process of the session has ended between two calls")

    def _said_something(self, seconds: float) -> bool:
        """Wait for a message, or the end of the socket."""
        poller = select.poll()
        try:
            poller.register(self._control, select.POLLIN)
        except ValueError as error:
            raise ZygoteDied("the sandbox is closed") from error
        return bool(poller.poll(seconds * 1_000))

    def _ended(self, ended: Ended, given_up: float) -> None:
        try:
            message = self._receive(min(given_up, time.monotonic() + GRACE_SECONDS))
        except ZygoteDied as error:
            raise DiedInRun(str(error)) from error
        self._running, self._dirty = False, True
        ended.stopped = message["stopped"] or ended.stopped
        ended.status = message["ended"]
        ended.cpu_s = message["cpu_s"]
        ended.max_rss = message["max_rss"]

    def _send(self, message: object, descriptors: list[int] | None = None) -> None:
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], descriptors or [])
        except OSError as error:
            raise ZygoteDied(f"the sandbox has ended: {error}{self._said()}") from error

    def _receive(self, deadline: float) -> dict[str, Any]:
        if not self._said_something(max(0.0, deadline - time.monotonic())):
            raise ZygoteDied(f"the sandbox does not answer{self._said()}")
        try:
            message = self._control.recv(PACKET)
        except OSError:
            message = b""
        if not message:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
            raise ZygoteDied(f"the sandbox has ended{self._said()}")
        return json.loads(message)

    def _said(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            self._log.seek(0)
            lines = self._log.read(1 << 14).decode("utf-8", "replace").strip().splitlines()
            code = self._process.poll()
            ending = "" if code is None else f" (exit {code})"
            return f"{ending}: {lines[-1][:400]}" if lines else ending
        return ""

    def close(self) -> None:
        """End it, and all in it."""
        if self._process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
        self.let_go()

    def let_go(self) -> None:
        """Close this process's ends, which ends the zygote once nobody else has them."""
        self._control.close()
        self._log.close()
        if self._folder is not None and os.getpid() == self._owner:
            self._folder.cleanup()


@contextlib.contextmanager
def file_of(source: bytes) -> Iterator[int]:
    """A descriptor from which the source can be read."""
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(source)
        file.seek(0)
        yield file.fileno()


def _modules() -> dict[str, str]:
    """The sources that the zygote runs: it need not find this package in its jail."""
    here = Path(__file__).parent
    return {
        "verl_stare": "",
        "verl_stare.sandbox": "",
        **{
            f"verl_stare.sandbox.{name}": (here / f"{name}.py").read_text()
            for name in ("confine", "notebook", "runner", "zygote")
        },
    }
