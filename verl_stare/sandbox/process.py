"""One zygote in its jail, seen from outside: started, asked, and ended."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import queue
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from verl_stare.sandbox import syscalls
from verl_stare.sandbox.jail import Jail
from verl_stare.sandbox.limits import Limits
from verl_stare.sandbox.zygote import PACKET

# What starting may take: numpy and sympy come from a disk that may be slow.
START_SECONDS = 60.0
# A killed process is gone, and its files are removed, well within this.
GRACE_SECONDS = 5.0
# What cleaning may take; a new jail takes less than a second.
CLEAN_SECONDS = 2.0
# Between looks at the number of threads.
LOOK_SECONDS = 0.1
_CHUNK = 1 << 16
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
        stopped: why it was ended from outside: `wall`, `output`, `threads`, `entries`, `session`
            (it ended, or broke the rules of a session), or None.
        dropped: bytes of output that were read and not kept.
    """

    status: int | None = None
    exit_code: int | None = None
    stopped: str | None = None
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
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
            self._process = _in_lasting_thread(
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
        with _Pipes() as pipes:
            self._start(source, limits, pipes, [])
            ended = Ended()
            self._watch(pipes, limits, ended, cells=None)
            return ended

    def open_session(self, limits: Limits) -> Session:
        """Start a process that stays, and takes cells.

        Raises:
            ZygoteDied: the jail has ended.
        """
        return Session(self, limits)

    def _start(self, source: bytes, limits: Limits, pipes: _Pipes, more: list[int]) -> None:
        request = {"run": limits.as_dict(), "session": bool(more)}
        with _file_of(source) as file:
            self._send(request, [file, pipes.out_write, pipes.err_write, *more])
        self.is_new = False
        self._running = True
        pipes.close_write_ends()

    def _watch(
        self,
        pipes: _Pipes,
        limits: Limits,
        ended: Ended,
        cells: socket.socket | None,
        cell: str = "",
    ) -> None:
        """Collect output until the process ends, or, in a session, the cell does."""
        started = time.monotonic()
        deadline = started + limits.wall_s
        given_up = float("inf")
        look = started + LOOK_SECONDS
        poller = select.poll()
        sinks = {pipes.out_read: ended.stdout, pipes.err_read: ended.stderr}
        for descriptor in (*sinks, self._control.fileno()):
            poller.register(descriptor, select.POLLIN)
        if cells is not None:
            poller.register(cells.fileno(), select.POLLIN)
        while self._running or sinks:
            now = time.monotonic()
            if now >= given_up:
                # It is slow to die, or its jail to say so. With the jail it dies in any case.
                self.close()
                self._running, ended.status = False, int(signal.SIGKILL)
                break
            if now >= look and ended.stopped is None:
                look = now + LOOK_SECONDS
                if _threads(self.pid) > limits.threads:
                    ended.stopped = "threads"
            if now >= deadline and ended.stopped is None:
                ended.stopped = "wall"
            if ended.stopped and given_up == float("inf"):
                self._kill()
                given_up = now + GRACE_SECONDS
            until = given_up if ended.stopped else min(deadline, look)
            for descriptor, _ in poller.poll(max(0.0, until - now) * 1_000 + 1):
                if descriptor == self._control.fileno():
                    self._ended(ended, given_up)
                    poller.unregister(descriptor)
                elif cells is not None and descriptor == cells.fileno():
                    if self._cell_ended(cells, cell, ended):
                        _drain(sinks, limits.output, ended)
                        ended.wall_s = time.monotonic() - started
                        return
                    # It has ended, or tampers with its session.
                    poller.unregister(descriptor)
                    ended.stopped = ended.stopped or "session"
                elif not _read(descriptor, sinks[descriptor], limits.output, ended):
                    poller.unregister(descriptor)
                    del sinks[descriptor]
            if not self._running:
                # Nobody else has the other ends.
                _drain(sinks, limits.output, ended)
                break
        ended.wall_s = time.monotonic() - started

    def stop(self) -> None:
        """Kill the process that runs.

        Raises:
            ZygoteDied: the jail has ended, or cannot end it.
        """
        self._kill()
        self._ended(Ended(), time.monotonic() + GRACE_SECONDS)

    def _kill(self) -> None:
        try:
            self._send({"kill": True})
        except ZygoteDied as error:
            raise DiedInRun(str(error)) from error

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

    @staticmethod
    def _cell_ended(cells: socket.socket, cell: str, ended: Ended) -> bool:
        """Read what a session's process says, which is not to be trusted; False if it says nothing
        that it should."""
        try:
            done = json.loads(cells.recv(PACKET))
            code, seconds = done["exit_code"], float(done["cpu_s"])
            right = done["cell"] == cell and type(code) is int and 0 <= code < 256
            if not right or not 0.0 <= seconds < 1e9:
                return False
        except (OSError, ValueError, TypeError, KeyError, ArithmeticError, RecursionError):
            return False
        ended.exit_code, ended.cpu_s = code, seconds
        return True

    def _send(self, message: object, descriptors: list[int] | None = None) -> None:
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], descriptors or [])
        except OSError as error:
            raise ZygoteDied(f"the sandbox has ended: {error}{self._said()}") from error

    def _receive(self, deadline: float) -> dict[str, Any]:
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        if not poller.poll(max(0.0, deadline - time.monotonic()) * 1_000):
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


class Session:
    """A process that keeps its variables between cells. It has the zygote to itself."""

    def __init__(self, zygote: Zygote, limits: Limits) -> None:
        self._zygote = zygote
        self._limits = limits
        self._pipes = _Pipes()
        self._cells, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.alive = True
        try:
            with theirs:
                zygote._start(b"", limits, self._pipes, [theirs.fileno()])
        except BaseException:
            self._cells.close()
            self._pipes.close()
            raise

    def run(self, source: bytes) -> Ended:
        """Run a cell. After one that did not come to its end (its `status` is not None) the process
        is gone, and `alive` is False.

        Raises:
            ZygoteDied: the jail ended meanwhile.
        """
        ended = Ended()
        # Not to be known before, so that no reply is written ahead.
        cell = secrets.token_hex(8)
        with _file_of(source) as file, contextlib.suppress(OSError):
            message = json.dumps({"cell": cell, "cpu_s": self._limits.cpu_s}).encode()
            socket.send_fds(self._cells, [message], [file])
        self._zygote._watch(self._pipes, self._limits, ended, self._cells, cell)
        self.alive = ended.status is None
        return ended

    def close(self) -> None:
        """End the process; the zygote is free again."""
        self._cells.close()
        if self._zygote._running:
            self._zygote.stop()
        self._pipes.close()


class _Pipes:
    """stdout and stderr of one process."""

    def __init__(self) -> None:
        self.out_read, self.out_write = os.pipe()
        self.err_read, self.err_write = os.pipe()
        self._open = {self.out_read, self.out_write, self.err_read, self.err_write}
        for descriptor in (self.out_read, self.err_read):
            os.set_blocking(descriptor, False)

    def close_write_ends(self) -> None:
        for descriptor in (self.out_write, self.err_write):
            self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        for descriptor in list(self._open):
            self._close(descriptor)

    def __enter__(self) -> _Pipes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def family(pid: int) -> list[int]:
    """A process and its descendants, as far as the kernel tells."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{one}/task/{one}/children").read_text()
            found += map(int, children.split())
    return found


def _threads(pid: int) -> int:
    """The most threads that a process of a jail has."""
    most = 0
    for one in family(pid):
        with contextlib.suppress(OSError, ValueError):
            stat = Path(f"/proc/{one}/stat").read_text()
            most = max(most, int(stat.rpartition(")")[2].split()[17]))
    return most


def _read(descriptor: int, sink: bytearray, most: int, ended: Ended) -> bool:
    """Read once; False at the end of the pipe."""
    try:
        chunk = os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return True
    room = max(0, most - len(ended.stdout) - len(ended.stderr))
    sink += chunk[:room]
    ended.dropped += len(chunk) - len(chunk[:room])
    if ended.dropped and ended.stopped is None:
        ended.stopped = "output"
    return bool(chunk)


def _drain(sinks: dict[int, bytearray], most: int, ended: Ended) -> None:
    """Read what is left in the pipes, which hold 64 KiB each."""
    for descriptor, sink in sinks.items():
        while True:
            before = len(sink) + ended.dropped
            if not _read(descriptor, sink, most, ended) or len(sink) + ended.dropped == before:
                break


@contextlib.contextmanager
def _file_of(source: bytes):
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
            for name in ("notebook", "zygote")
        },
    }


_Result = TypeVar("_Result")
_tasks: queue.SimpleQueue[Callable[[], None]] | None = None
_tasks_lock = threading.Lock()


def _in_lasting_thread(task: Callable[[], _Result]) -> _Result:
    """Run it in a thread that ends with this process.

    The kernel kills a jail when the thread that started it ends, not when the process does.
    """
    global _tasks
    with _tasks_lock:
        if _tasks is None:
            _tasks = queue.SimpleQueue()
            threading.Thread(target=_work, args=(_tasks,), daemon=True, name="sandbox").start()
        tasks = _tasks
    future: Future[_Result] = Future()

    def run() -> None:
        try:
            future.set_result(task())
        except BaseException as error:
            future.set_exception(error)

    tasks.put(run)
    return future.result()


def _work(tasks: queue.SimpleQueue[Callable[[], None]]) -> None:
    while True:
        tasks.get()()


def _forget() -> None:
    # The thread is not there in a forked process.
    global _tasks, _tasks_lock
    _tasks = None
    _tasks_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)
