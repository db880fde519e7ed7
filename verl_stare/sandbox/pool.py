"""As many jails as calls are made at once; each call has one to itself."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from verl_stare.sandbox import jail, tiers
from verl_stare.sandbox.limits import Limits
from verl_stare.sandbox.outcome import died, encoded, failure, outcome
from verl_stare.sandbox.process import DiedInRun, Zygote, ZygoteDied
from verl_stare.sandbox.result import ExecutionResult
from verl_stare.sandbox.session import Session
from verl_stare.sandbox.syscalls import FilterUnavailable

PRELOAD = ("numpy", "numpy.random", "sympy")
_ATTEMPTS = 2
_MOST_SESSIONS = 4096
_CLOSING_THREADS = 64
_CLOSED_CHECK_SECONDS = 0.5


class Pool:
    """Runs code in jails of one tier, at most `size` at once. Safe to use from several threads.

    A jail is built when it is first needed, and again when it was lost; calls wait for a free one
    in the order in which they came.
    """

    def __init__(
        self,
        size: int | None = None,
        *,
        tier: str = tiers.AUTO,
        limits: Limits | None = None,
        preload: Sequence[str] = PRELOAD,
    ) -> None:
        """Args:
            size: calls at once; default: the cores that this process may use.
            tier: `auto` (bwrap, else landlock), or one of `bwrap`, `landlock`, `none`.
            limits: of each call.
            preload: modules that are there when code starts; those not installed are left out.

        Raises:
            SandboxUnavailable: no tier that was wanted holds here.
            ValueError: a size or tier that is none.
        """
        cores = len(os.sched_getaffinity(0))
        self.size = cores if size is None else size
        if not 1 <= self.size <= 4096:
            raise ValueError(f"sandbox size={size!r}: allowed are 1 to 4096")
        self.limits = limits or Limits()
        self.tier, self.probes = tiers.choose(tier, self.limits)
        self._preload = installed(preload)
        self._lock = threading.Lock()
        self._free: list[Zygote] = []
        self._all: set[Zygote] = set()
        self._places = threading.BoundedSemaphore(self.size)
        self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="sandbox")
        # Sessions that wait for a place must not hold up those that have one, nor their closing,
        # which frees it.
        self._waiting_threads = ThreadPoolExecutor(
            _MOST_SESSIONS, thread_name_prefix="sandbox-wait"
        )
        self._session_threads = ThreadPoolExecutor(self.size, thread_name_prefix="sandbox-session")
        self._closing_threads = ThreadPoolExecutor(
            _CLOSING_THREADS, thread_name_prefix="sandbox-closing"
        )
        self._owner = os.getpid()
        self._closed = False
        _pools.add(self)

    def run(self, code: str, limits: Limits | None = None) -> ExecutionResult:
        """Run a program, and wait for it.

        What went wrong is in the result, the sandbox's own failures too. A jail that is lost in a
        call takes no other call with it; the call is made once more, in another one.

        Args:
            code: the source, in any state.
            limits: instead of the pool's; of workdir the pool's hold.
        """
        limits = limits or self.limits
        source, refused = encoded(code, limits)
        if refused is not None:
            return refused
        error: Exception = RuntimeError()
        attempt = 1
        while attempt <= _ATTEMPTS:
            new = True
            try:
                with self._zygote() as zygote:
                    new = zygote.is_new
                    return outcome(zygote.run(source, limits), limits, attempts=attempt)
            except (ZygoteDied, FilterUnavailable, OSError) as lost:
                error = lost
                # That one has died since its last call says nothing of the next.
                attempt += new or isinstance(lost, DiedInRun)
        # That a jail ends each time that this code runs in it is not the sandbox's failure.
        ended = died if isinstance(error, DiedInRun) else failure
        return ended(str(error), _ATTEMPTS)

    async def arun(self, code: str, limits: Limits | None = None) -> ExecutionResult:
        """`run`, for an event loop. Cancelled, it ends within the limits of the call."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self.run, code, limits)

    def warm_up(self) -> None:
        """Build one jail.

        Raises:
            ZygoteDied: it cannot be built.
        """
        with self._zygote():
            pass

    @contextlib.contextmanager
    def _zygote(self, given_up: threading.Event | None = None) -> Iterator[Zygote]:
        """One to oneself. After a failure it is closed, and is no longer the pool's."""
        if os.getpid() != self._owner:
            raise RuntimeError("a sandbox pool belongs to the process that has made it")
        self._wait_for_a_place(given_up)
        try:
            with self._lock:
                if self._closed:
                    raise RuntimeError("the sandbox pool is closed")
                zygote = self._free.pop() if self._free else None
            if zygote is not None and not zygote.ready():
                self._discard(zygote)
                zygote = None
            if zygote is None:
                zygote = Zygote(jail.build(self.tier, self.limits, self._preload))
                with self._lock:
                    self._all.add(zygote)
            try:
                yield zygote
            except BaseException:
                self._discard(zygote)
                raise
            with self._lock:
                if self._closed:
                    zygote.close()
                else:
                    self._free.append(zygote)
        finally:
            self._places.release()

    def _wait_for_a_place(self, given_up: threading.Event | None) -> None:
        # Not for ever, since a pool or session may be closed while calls wait.
        while not self._places.acquire(timeout=_CLOSED_CHECK_SECONDS):
            if self._closed:
                raise RuntimeError("the sandbox pool is closed")
            if given_up is not None and given_up.is_set():
                raise SessionClosed

    def _discard(self, zygote: Zygote) -> None:
        zygote.close()
        with self._lock:
            self._all.discard(zygote)

    def session(self, limits: Limits | None = None) -> PoolSession:
        """A session, which has a jail to itself until it is closed."""
        return PoolSession(self, limits or self.limits)

    def pids(self) -> list[int]:
        """The jails that live, by the number of their outermost process."""
        with self._lock:
            return [zygote.pid for zygote in self._all if zygote.alive]

    def close(self) -> None:
        """End all jails. Calls that wait, and later ones, fail."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            self._closed = True
            zygotes, self._free = list(self._all), []
            self._all = set()
        for zygote in zygotes:
            zygote.close()
        for threads in (
            self._threads,
            self._waiting_threads,
            self._session_threads,
            self._closing_threads,
        ):
            threads.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SessionClosed(Exception):
    """A session was closed while its call waited for a place."""


class PoolSession:
    """Code that keeps its variables from one call to the next, until the session is closed.

    After a call that did not come to its end the variables are gone; the next one starts anew.
    """

    def __init__(self, pool: Pool, limits: Limits) -> None:
        self._pool = pool
        self._limits = limits
        self._stack = contextlib.ExitStack()
        self._session: Session | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def run(self, code: str) -> ExecutionResult:
        """Run a cell, and wait for it."""
        source, refused = encoded(code, self._limits)
        if refused is not None:
            return refused
        with self._lock:
            if self._closed.is_set():
                return failure("the session is closed")
            started = self._session is not None
            try:
                if self._session is None:
                    zygote = self._stack.enter_context(self._pool._zygote(self._closed))
                    self._session = Session(zygote, self._limits)
                ended = self._session.run(source)
            except SessionClosed:
                return failure("the session is closed")
            except (ZygoteDied, FilterUnavailable, OSError) as error:
                self._leave(error)
                gone = "; the variables of the session are gone" * started
                return (died if isinstance(error, DiedInRun) else failure)(f"{error}{gone}")
            if not self._session.alive:
                self._leave(None)
            return outcome(ended, self._limits, session=True)

    async def arun(self, code: str) -> ExecutionResult:
        """`run`, for an event loop."""
        loop = asyncio.get_running_loop()
        has_place = self._session is not None
        threads = self._pool._session_threads if has_place else self._pool._waiting_threads
        return await loop.run_in_executor(threads, self.run, code)

    async def aclose(self) -> None:
        """`close`, for an event loop."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._pool._closing_threads, self.close)

    def close(self) -> None:
        """End the process; the jail is the pool's again. A call that waits for a place gives up."""
        self._closed.set()
        with self._lock:
            self._leave(None)

    def _leave(self, error: BaseException | None) -> None:
        session, self._session = self._session, None
        if session is not None:
            try:
                session.close()
            except (ZygoteDied, OSError) as lost:
                error = error or lost
        with contextlib.suppress(ZygoteDied, OSError):
            if error is None:
                self._stack.close()
            else:
                self._stack.__exit__(type(error), error, None)

    def __enter__(self) -> PoolSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def installed(modules: Sequence[str]) -> list[str]:
    """Those that can be imported here; without importing them."""
    import importlib.util

    return [name for name in modules if importlib.util.find_spec(name.partition(".")[0])]


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _let_go() -> None:
    # A forked process must not keep its parent's jails alive.
    for pool in list(_pools):
        for zygote in list(pool._all):
            zygote.let_go()


os.register_at_fork(after_in_child=_let_go)


def _close_all() -> None:
    for pool in list(_pools):
        pool.close()


# Before the threads of calls are waited for, which atexit is not; private, with no public like.
getattr(threading, "_register_atexit", atexit.register)(_close_all)
