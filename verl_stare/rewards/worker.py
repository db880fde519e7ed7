"""The process that does the algebra, driven by `pool`.

It loads math-verify's parser and sympy once, then forks a child, which answers requests until it
dies. The kernel kills the child when a request takes too long, even inside C code: an interval
timer with its default action. This process then answers for it and forks the next. A child also
ends after some hundred requests or when it has grown, so memory does not stay taken. When the pipe
closes, whoever closed it, both end.

Request: a JSON line `{"number": int, "one": str, "other": str, "seconds": float}`, one at a time.
Reply: a JSON line `{"number": int, "verdict": bool, "seconds": float}`, with the processor time; or
`{"number": int, "cut_short": bool}`: whether it was the limit that ended the child. The first line
says `"ready"`.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import signal
import time

REQUESTS_PER_CHILD = 500
MEMORY_PER_CHILD = 1 << 30  # bytes of address space over what is in use when it starts
GROWTH_PER_CHILD = 256 << 10  # KiB of resident memory
# Children in a row that die before they are asked anything: it is this machine that kills them.
MOST_IDLE_DEATHS = 20
# Seconds on the clock for a second of work, at most.
BUSY = 3
_LIMITS = (signal.SIGPROF, signal.SIGALRM)
_END_OF_INPUT = 17


def main() -> None:
    """Serve requests on stdin until it ends."""
    # Replies go where stdout was; whatever a library prints must not mix with them.
    replies = os.dup(1)
    os.dup2(2, 1)
    from verl_stare.rewards import algebra

    algebra.warm_up()
    _send(replies, "ready")
    # Shared with the children: the number of the request that one has taken and not answered, and
    # whether it has taken any.
    taken = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")
    idle_deaths = 0
    while idle_deaths < MOST_IDLE_DEATHS:
        taken[1] = 0
        child = os.fork()
        if child == 0:
            try:
                _serve(replies, taken)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _END_OF_INPUT:
            return
        idle_deaths = 0 if taken[1] else idle_deaths + 1
        if taken[0]:
            late = os.WIFSIGNALED(status) and os.WTERMSIG(status) in _LIMITS
            _send(replies, {"number": taken[0], "cut_short": late})
            taken[0] = 0


def _serve(replies: int, taken: memoryview) -> None:
    from verl_stare.rewards import algebra

    with open("/proc/self/statm") as pages:
        in_use = int(pages.read().split()[0]) * resource.getpagesize()
    limit = in_use + MEMORY_PER_CHILD
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for limit_signal in _LIMITS:
        signal.signal(limit_signal, signal.SIG_DFL)
    resident = _resident()
    for _ in range(REQUESTS_PER_CHILD):
        line = _read_line()
        if line is None:
            os._exit(_END_OF_INPUT)
        request = json.loads(line)
        taken[0] = request["number"]
        taken[1] = 1
        # Seconds of work, since a busy machine is not the answer's fault; and an end in any case.
        signal.setitimer(signal.ITIMER_PROF, request["seconds"])
        signal.setitimer(signal.ITIMER_REAL, request["seconds"] * BUSY)
        start = time.process_time()
        verdict = algebra.equal(request["one"], request["other"])
        seconds = time.process_time() - start
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        taken[0] = 0
        _send(replies, {"number": request["number"], "verdict": verdict, "seconds": seconds})
        if _resident() - resident > GROWTH_PER_CHILD:
            break
    os._exit(0)


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _read_line() -> bytes | None:
    """One line. Nothing follows it: whoever asks waits for the reply."""
    line = bytearray()
    while not line.endswith(b"\n"):
        chunk = os.read(0, 1 << 16)
        if not chunk:
            return None
        line += chunk
    return bytes(line)


def _send(replies: int, message: object) -> None:
    os.write(replies, json.dumps(message).encode() + b"\n")
