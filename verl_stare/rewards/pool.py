"""The processes that do the algebra, as many as are used at once, and each of them killable.

They belong to the process that asks, and end with it. Safe to call from several threads.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import verl_stare
from verl_stare.rewards.worker import BUSY

# What starting a process may take: it reads sympy from a disk that may be slow.
START_SECONDS = 120.0
# The kernel ends a request at its limit; a reply later than this means that the process is gone.
_GRACE = 5.0
PROCESSES_VARIABLE = "VERL_STARE_GRADER_PROCESSES"


# Without the working directory, where a model's code may have written a sympy.py; and this very
# verl_stare, wherever it was found.
_START = """import sys
sys.path[:] = {paths!r}
from importlib import util
spec = util.spec_from_file_location("verl_stare", {init!r}, submodule_search_locations=[{folder!r}])
sys.modules["verl_stare"] = util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["verl_stare"])
from verl_stare.rewards.worker import main
main()"""


class Unavailable(RuntimeError):
    """The algebra cannot be done here at all: its process does not start."""


@dataclass(frozen=True)
class Reply:
    """Attributes:
    verdict: None if there is none.
    cut_short: because of the limit, and not because the process died.
    seconds: of work.
    """

    verdict: bool | None
    cut_short: bool
    seconds: float


class _Worker:
    """One process, started when made; `ask` waits until it is ready."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _program()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            # A Ctrl-C at the terminal is for whoever asks; the worker ends when its pipe closes.
            start_new_session=True,
        )
        self._pending = b""
        self._ready = False
        self._number = 0

    @property
    def alive(self) -> bool:
        stdin = self._process.stdin
        return stdin is not None and not stdin.closed and _runs(self._process.pid)

    def wait_until_ready(self) -> None:
        if not self._ready:
            if self._line(START_SECONDS) != "ready":
                self.close()
                raise Unavailable(
                    f"the grader's worker does not start within {START_SECONDS:.0f} s; to see why: "
                    f"{sys.executable} -c 'from verl_stare.rewards.worker import main; main()'"
                )
            self._ready = True

    def ask(self, one: str, other: str, seconds: float) -> Reply:
        """Whether two formulas are equal.

        A worker that was not heard to the end of its reply is closed: what it says next would be
        taken for the answer to another question.
        """
        self._number += 1
        request = {"number": self._number, "one": one, "other": other, "seconds": seconds}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            deadline = time.monotonic() + seconds * BUSY + _GRACE
            while isinstance(reply := self._line(deadline - time.monotonic()), dict):
                if reply["number"] == self._number:
                    cut_short = reply.get("cut_short", False)
                    spent = seconds if cut_short else reply.get("seconds", 0.0)
                    return Reply(reply.get("verdict"), cut_short, spent)
        except OSError:
            pass
        except BaseException:
            self.close()
            raise
        self.close()
        return Reply(None, False, 0.0)

    def _line(self, seconds: float) -> object:
        """The next line of the process; None, and its end, if none comes in time."""
        assert self._process.stdout is not None
        stdout = self._process.stdout.fileno()
        deadline = time.monotonic() + seconds
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            # poll, since select fails where a process has more than 1,024 open files.
            poller = select.poll()
            poller.register(stdout, select.POLLIN)
            chunk = os.read(stdout, 1 << 16) if left > 0 and poller.poll(left * 1_000) else b""
            if not chunk:
                self.close()
                return None
            self._pending += chunk
        line, self._pending = self._pending.split(b"\n", 1)
        return json.loads(line)

    def close(self) -> None:
        """End the process and whatever it has forked."""
        # Once it was waited for, its number may be another's.
        if self._process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self.let_go()

    def let_go(self) -> None:
        """Close this process's ends of the pipes."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _runs(pid: int) -> bool:
    """Without waiting for it, which would free its number."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _program() -> str:
    init = os.path.abspath(verl_stare.__file__)
    paths = [path for path in sys.path if os.path.isabs(path) and path != os.getcwd()]
    return _START.format(paths=paths, init=init, folder=os.path.dirname(init))


def _environment() -> dict[str, str]:
    # One thread: it computes with Python's integers, and there are as many processes as wanted.
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


class Pool:
    """At most `size` workers, started when first needed and again after one has died."""

    def __init__(self, size: int) -> None:
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        self._workers: set[_Worker] = set()
        self._lock = threading.Lock()
        self._owner = os.getpid()
        for _ in range(size):
            self._idle.put(None)

    def equal(self, one: str, other: str, seconds: float) -> Reply:
        """Whether two formulas are equal, in at most `seconds` of work.

        Waiting for a free process, or for one to start, does not count: it is bounded by what the
        others may take. Asked again if the process died and the limit was not the reason.
        """
        worker = self._idle.get()
        reply = Reply(None, False, 0.0)
        try:
            for _ in range(2):
                if worker is None or not worker.alive:
                    worker = self._start(worker)
                worker.wait_until_ready()
                reply = worker.ask(one, other, seconds)
                if reply.verdict is not None or reply.cut_short:
                    break
            return reply
        finally:
            self._idle.put(worker)

    def warm_up(self) -> None:
        """Start one process without waiting for it."""
        worker = self._idle.get()
        try:
            if worker is None:
                worker = self._start(None)
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """End all processes, if they are this process's and not its parent's."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            for worker in self._workers:
                worker.close()
            self._workers.clear()

    def let_go(self) -> None:
        """In a forked process: close what belongs to its parent."""
        for worker in self._workers:
            worker.let_go()

    def _start(self, previous: _Worker | None) -> _Worker:
        worker = _Worker()
        with self._lock:
            if previous is not None:
                previous.close()
                self._workers.discard(previous)
            self._workers.add(worker)
        return worker


_pool: Pool | None = None
_lock = threading.Lock()


def get() -> Pool:
    """This process's pool."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = Pool(_size())
            atexit.register(_pool.close)
            _pool.warm_up()
        return _pool


def _size() -> int:
    written = os.environ.get(PROCESSES_VARIABLE, "2")
    if not written.isdecimal() or not 1 <= int(written) <= 64:
        raise ValueError(f"{PROCESSES_VARIABLE}={written!r}: allowed are 1 to 64")
    return int(written)


@functools.lru_cache(maxsize=8192)
def _remembered(one: str, other: str) -> dict[str, Any]:
    # Filled by `equal`: "verdict", or "cut_short": the seconds that were not enough.
    return {}


def equal(one: str, other: str, seconds: float) -> tuple[bool | None, float]:
    """Whether two formulas are equal, None if that was not known after `seconds`; and those spent.

    Verdicts are remembered, and so is what took too long: a batch holds many equal answers.

    Raises:
        Unavailable: the worker process does not start.
    """
    known = _remembered(one, other)
    if "verdict" in known:
        return known["verdict"], 0.0
    # Half of it: two calls for the same answer differ by what was spent before.
    if seconds <= 2 * known.get("cut_short", 0.0):
        return None, 0.0
    reply = get().equal(one, other, seconds)
    if reply.cut_short:
        known["cut_short"] = seconds
    elif reply.verdict is not None:
        known["verdict"] = reply.verdict
    return reply.verdict, reply.seconds


def _forget() -> None:
    # A forked process must not talk through its parent's pipes, nor keep them open.
    global _pool, _lock
    if _pool is not None:
        _pool.let_go()
    _pool = None
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)
