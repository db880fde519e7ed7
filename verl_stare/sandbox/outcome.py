"""From what a process left behind to what its code did, in words."""

from __future__ import annotations

import os
import signal

from verl_stare.sandbox.limits import MIB, Limits
from verl_stare.sandbox.process import Ended
from verl_stare.sandbox.result import ExecutionResult, Status


def outcome(
    ended: Ended, limits: Limits, *, session: bool = False, attempts: int = 1
) -> ExecutionResult:
    """The result of a run, with one reason where its output does not say it all."""
    exit_code, killed_by = _ending(ended)
    status, reason = _status(ended, limits, exit_code, killed_by)
    if session and ended.status is not None:
        if status == "ok":
            status, reason = "error", "[the process of the session has ended]"
        reason = f"{reason[:-1]}; the variables of the session are gone]" if reason else reason
    return ExecutionResult(
        stdout=ended.stdout,
        stderr=ended.stderr,
        status=status,
        reason=reason,
        truncated=ended.dropped,
        exit_code=exit_code,
        signal=killed_by,
        cpu_s=ended.cpu_s,
        wall_s=ended.wall_s,
        max_rss=ended.max_rss,
        attempts=attempts,
    )


def died(message: str, attempts: int = 1) -> ExecutionResult:
    """The result where the jail ended with the code that ran in it, each time."""
    return ExecutionResult(
        "", "", "killed", f"[killed: the sandbox ended with the code: {message}]", attempts=attempts
    )


def failure(message: str, attempts: int = 1) -> ExecutionResult:
    """The result where the sandbox failed."""
    return ExecutionResult(
        "", "", "infrastructure", f"[the sandbox failed: {message}]", attempts=attempts
    )


def signal_name(number: int) -> str:
    """Such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _ending(ended: Ended) -> tuple[int | None, str | None]:
    if ended.status is None:
        return ended.exit_code, None
    if os.WIFSIGNALED(ended.status):
        return None, signal_name(os.WTERMSIG(ended.status))
    return os.WEXITSTATUS(ended.status), None


def _status(
    ended: Ended, limits: Limits, exit_code: int | None, killed_by: str | None
) -> tuple[Status, str]:
    if ended.stopped == "output":
        return "output", (
            f"[output truncated: {ended.dropped} bytes dropped, and the code ended, "
            f"at the limit of {limits.output / MIB:.3g} MiB]"
        )
    if ended.stopped == "cpu":
        return "timeout", f"[timed out after {limits.cpu_s:g}s of processor time]"
    if ended.stopped == "wall":
        return "timeout", f"[timed out after {limits.wall_s:g}s]"
    if ended.stopped == "threads":
        return "killed", f"[killed: more than {limits.threads} threads]"
    if ended.stopped == "entries":
        return "killed", f"[killed: more than {limits.entries} files and folders]"
    # By the kernel's own count of ticks, which is not that of the time reported.
    least = {"SIGXCPU": 0.5, "SIGKILL": 0.9}.get(killed_by or "")
    if least is not None and ended.cpu_s >= least * limits.cpu_s:
        return "timeout", f"[timed out after {limits.cpu_s:g}s of processor time]"
    if killed_by is not None:
        if ended.stopped == "session":
            return "killed", "[killed: it tampered with its session]"
        much = ended.max_rss > limits.memory / 4
        hint = " (probably out of memory)" if killed_by == "SIGKILL" and much else ""
        return "killed", f"[killed: {killed_by}{hint}]"
    if exit_code:
        # After an exception, the traceback says it.
        told = exit_code == 1 and ended.stderr
        return "error", "" if told else f"[exited with code {exit_code}]"
    return "ok", ""


def encoded(code: str, limits: Limits) -> tuple[bytes, ExecutionResult | None]:
    """The source in bytes; or the result, if it is too long to be run."""
    source = code.encode("utf-8", "surrogatepass")
    if len(source) <= limits.source:
        return source, None
    reason = f"[the code has {len(source)} bytes, and at most {limits.source} are allowed]"
    return b"", ExecutionResult("", "", "error", reason)
