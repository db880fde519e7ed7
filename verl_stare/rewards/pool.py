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
import subprocess
import sys
import threading
import time
from typing import Any

# Seconds of a request in any one process; a comparison may ask for less.
MOST_SECONDS = 10.0
# What starting a process may take: it reads sympy from a disk that may be slow.
START_SECONDS = 120.0
# The kernel ends a request at its limit; a reply later than this means that the process is gone.
_GRACE = 5.0
PROCESSES_VARIABLE = "VERL_STARE_GRADER_PROCESSES"


class Unavailable(RuntimeError):
    """The algebra cannot be done here at all: its process does not start."""


class _Worker:
    """One process, started when made; `ask` waits until it is ready."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "verl_stare.rewards.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            # A Ctrl-C at the terminal is for whoever asks; the worker ends when its pipe closes.
            start_new_session=True,
        )
        self._pending = b""
        self._ready = False

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        if not self._ready:
            if self._line(START_SECONDS) != "ready":
                self.close()
                raise Unavailable(
                    f"{sys.executable} -m verl_stare.rewards.worker does not start "
                    f"(within {START_SECONDS:.0f} s); run it to see why"
                )
            self._ready = True

    def ask(self, one: str, other: str, seconds: float) -> bool | None:
        request = json.dumps({"one": one, "other": other, "seconds": seconds}) + "\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(request.encode())
            self._process.stdin.flush()
        except OSError:
            self.close()
            return None
        reply = self._line(seconds + _GRACE)
        if reply is None and not self.alive:
            self.close()
        return reply if isinstance(reply, bool) else None

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
            if left <= 0 or not poller.poll(left * 1_000):
                self.close()
                return None
            chunk = os.read(stdout, 1 << 16)
            if not chunk:
                self.close()
                return None
            self._pending += chunk
        line, self._pending = self._pending.split(b"\n", 1)
        return json.loads(line)

    def close(self) -> None:
        """End the process and whatever it has forked."""
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, 9)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _environment() -> dict[str, str]:
    # One thread: it computes with Python's integers, and there are as many processes as wanted.
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


class Pool:
    """At most `size` workers, started when first needed and again after one has died."""

    def __init__(self, size: int) -> None:
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        self._workers: set[_Worker] = set()
        self._lock = threading.Lock()
        for _ in range(size):
            self._idle.put(None)

    def equal(self, one: str, other: str, seconds: float) -> bool | None:
        """Whether two formulas are equal; None if that was not known after `seconds`.

        Waiting for a free process does not count: it is bounded by what the others may take.
        """
        worker = self._idle.get()
        try:
            if worker is None or not worker.alive:
                worker = self._start(worker)
            worker.wait_until_ready()
            return worker.ask(one, other, min(seconds, MOST_SECONDS))
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
        """End all processes."""
        with self._lock:
            for worker in self._workers:
                worker.close()
            self._workers.clear()

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


def equal(one: str, other: str, seconds: float) -> bool | None:
    """Whether two formulas are equal; None if that was not known after `seconds`.

    Verdicts are remembered, and so is what took too long: a batch holds many equal answers.

    Raises:
        Unavailable: the worker process does not start.
    """
    known = _remembered(one, other)
    if "verdict" in known:
        return known["verdict"]
    # Half of it: two calls for the same answer differ by what was spent before.
    if seconds <= 2 * known.get("cut_short", 0.0):
        return None
    verdict = get().equal(one, other, seconds)
    if verdict is None:
        known["cut_short"] = seconds
    else:
        known["verdict"] = verdict
    return verdict


def _forget() -> None:
    # A forked process must not talk through its parent's pipes.
    global _pool, _lock
    _pool = None
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)
