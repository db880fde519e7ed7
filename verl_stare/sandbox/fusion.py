"""A client of Sandbox Fusion servers: the same calls and results as a local pool, over HTTP.

For clusters that run models' code on machines of their own. The server (Volcengine's SandboxFusion)
is asked with POST /run_code; its jail is its own, so of the limits only time, memory and the
lengths of source and output are ours to set.
"""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import tenacity

from verl_stare.sandbox import outcome
from verl_stare.sandbox.limits import MIB, Limits
from verl_stare.sandbox.result import ExecutionResult, Status

# Seconds that a request may take beyond the code's own: it may wait for a place at the server.
_PATIENCE = 60.0
_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
_PROGRAM = """{notebook}
import base64
sys.exit(run_cell(base64.b64decode({source!r}).decode("utf-8", "surrogatepass"), new_namespace()))
"""


class _Transient(Exception):
    """The server did not answer as it should; it may the next time."""


class _Refused(Exception):
    """The server will not answer: asking again is no use."""


class FusionClient:
    """Runs code on a Sandbox Fusion server. Safe to use from several threads and event loops."""

    def __init__(
        self,
        url: str,
        *,
        size: int = 64,
        limits: Limits | None = None,
        attempts: int = 5,
        first_wait_s: float = 0.5,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Args:
            url: of the server, http or https.
            size: requests at once.
            limits: of each call.
            attempts: how often a request is made before it counts as a failure of the sandbox.
            first_wait_s: before the second attempt, at most; doubled each time, up to 30 s.
            headers: sent along, for servers behind a key.

        Raises:
            ValueError: an argument that is none of these.
        """
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"sandbox url={url!r}: allowed is http://HOST[:PORT] or https://...")
        for key, value, highest in (("size", size, 65_536), ("attempts", attempts, 100)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= highest:
                raise ValueError(
                    f"sandbox {key}={value!r}: allowed is a whole number, 1 to {highest}"
                )
        self.size = size
        self.limits = limits or Limits()
        self._url = f"{url.rstrip('/')}/run_code"
        self._attempts = attempts
        self._first_wait = first_wait_s
        self._headers = headers or {}
        self._places = threading.BoundedSemaphore(size)
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="sandbox-fusion")
        self._client = httpx.Client(limits=httpx.Limits(max_connections=size))
        self._notebook = (Path(__file__).parent / "notebook.py").read_text()

    def run(self, code: str, limits: Limits | None = None) -> ExecutionResult:
        """Run a program on the server, and wait for it.

        A server that fails, or cannot be reached, is asked again, with growing pauses; after the
        last attempt the status is `infrastructure`.
        """
        limits = limits or self.limits
        source, refused = outcome.encoded(code, limits)
        if refused is not None:
            return refused
        request = {
            "language": "python",
            "code": _PROGRAM.format(
                notebook=self._notebook, source=base64.b64encode(source).decode()
            ),
            "run_timeout": limits.wall_s,
            "memory_limit_MB": limits.memory // MIB,
        }
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self._attempts),
            wait=tenacity.wait_random_exponential(multiplier=self._first_wait, max=30),
            retry=tenacity.retry_if_exception_type(_Transient),
            reraise=True,
        )
        try:
            with self._places:
                answer, seconds = retrying(self._ask, request, limits)
        except (_Transient, _Refused) as error:
            return outcome.failure(str(error), retrying.statistics.get("attempt_number", 1))
        attempts = retrying.statistics.get("attempt_number", 1)
        return _result(answer, limits, seconds, attempts)

    async def arun(self, code: str, limits: Limits | None = None) -> ExecutionResult:
        """`run`, for an event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self.run, code, limits)

    def _ask(self, request: dict[str, Any], limits: Limits) -> tuple[dict[str, Any], float]:
        started = time.monotonic()
        timeout = httpx.Timeout(limits.wall_s + _PATIENCE, connect=10.0)
        try:
            response = self._client.post(
                self._url, json=request, headers=self._headers, timeout=timeout
            )
        except httpx.HTTPError as error:
            raise _Transient(f"{self._url}: {type(error).__name__}: {error}") from error
        if response.status_code in _RETRIED:
            raise _Transient(f"{self._url}: HTTP {response.status_code}")
        if response.status_code != httpx.codes.OK:
            raise _Refused(f"{self._url}: HTTP {response.status_code}")
        try:
            answer = response.json()
            if answer["status"] == "SandboxError" or answer["run_result"] is None:
                raise _Transient(f"{self._url}: {answer.get('message') or 'SandboxError'}"[:400])
            if answer["run_result"]["status"] not in {"Finished", "TimeLimitExceeded"}:
                raise _Transient(f"{self._url}: {answer['run_result']['status']}")
            float(answer["run_result"].get("execution_time") or 0)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _Transient(f"{self._url}: no answer of a Sandbox Fusion server") from error
        return answer, time.monotonic() - started

    def warm_up(self) -> None:
        """See that the server runs code.

        Raises:
            RuntimeError: it does not.
        """
        result = self.run("print(6 * 7)")
        if result.stdout.strip() != "42":
            raise RuntimeError(f"the Sandbox Fusion server does not run code: {result.text()}")

    def close(self) -> None:
        """Close the connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def __enter__(self) -> FusionClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _result(
    answer: dict[str, Any], limits: Limits, seconds: float, attempts: int
) -> ExecutionResult:
    ran = answer["run_result"]
    stdout, stderr = str(ran.get("stdout") or ""), str(ran.get("stderr") or "")
    kept = stdout[: limits.output], stderr[: max(0, limits.output - len(stdout))]
    code = ran.get("return_code")
    status: Status = "ok"
    reason = ""
    if ran["status"] == "TimeLimitExceeded":
        status, reason = "timeout", f"[timed out after {limits.wall_s:g}s]"
    elif isinstance(code, int) and code < 0:
        status, reason = "killed", f"[killed: {outcome.signal_name(-code)}]"
    elif code:
        status = "error"
        reason = "" if code == 1 and stderr else f"[exited with code {code}]"
    return ExecutionResult(
        stdout=kept[0],
        stderr=kept[1],
        status=status,
        reason=reason,
        truncated=len(stdout) + len(stderr) - len(kept[0]) - len(kept[1]),
        exit_code=code if isinstance(code, int) and code >= 0 else None,
        signal=outcome.signal_name(-code) if isinstance(code, int) and code < 0 else None,
        wall_s=float(ran.get("execution_time") or seconds),
        attempts=attempts,
    )
