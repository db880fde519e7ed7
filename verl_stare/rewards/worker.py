"""The process that does the algebra: `python -m verl_stare.rewards.worker`, driven by `pool`.

It loads math-verify's parser and sympy once, then forks a child, which answers requests until it
dies. The kernel kills the child when a request takes too long, even inside C code: an interval
timer with its default action. This process then answers for it and forks the next. A child also
ends after some hundred requests or when it has grown, so memory does not stay taken. When the pipe
closes, whoever closed it, both end.

Request: a JSON line `{"one": str, "other": str, "seconds": float}`. Reply: a JSON line, `true`,
`false`, or `null` for a request that was cut short. The first line says `"ready"`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys

REQUESTS_PER_CHILD = 500
MEMORY_PER_CHILD = 1 << 30  # bytes of address space over what is in use when it starts
GROWTH_PER_CHILD = 256 << 10  # KiB of resident memory
_END_OF_INPUT = 17


def main() -> None:
    """Serve requests on stdin until it ends."""
    # Replies go where stdout was; whatever a library prints must not mix with them.
    replies = os.dup(1)
    os.dup2(2, 1)
    from verl_stare.rewards import algebra

    algebra.warm_up()
    _send(replies, "ready")
    while True:
        child = os.fork()
        if child == 0:
            try:
                _serve(replies)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _END_OF_INPUT:
            return
        if not (os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0):
            _send(replies, None)


def _serve(replies: int) -> None:
    from verl_stare.rewards import algebra

    with open("/proc/self/statm") as pages:
        in_use = int(pages.read().split()[0]) * resource.getpagesize()
    limit = in_use + MEMORY_PER_CHILD
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resident = _resident()
    for _ in range(REQUESTS_PER_CHILD):
        line = _read_line()
        if line is None:
            os._exit(_END_OF_INPUT)
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, request["seconds"])
        verdict = algebra.equal(request["one"], request["other"])
        signal.setitimer(signal.ITIMER_REAL, 0)
        _send(replies, verdict)
        if _resident() - resident > GROWTH_PER_CHILD:
            break
    os._exit(0)


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _read_line() -> bytes | None:
    """One line, byte by byte to its end: what follows belongs to whoever comes after this child."""
    line = bytearray()
    while not line.endswith(b"\n"):
        # One request is under way at a time, so nothing follows the line yet.
        chunk = os.read(0, 1 << 16)
        if not chunk:
            return None
        line += chunk
    return bytes(line)


def _send(replies: int, message: object) -> None:
    os.write(replies, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    sys.setrecursionlimit(2_000)
    main()
