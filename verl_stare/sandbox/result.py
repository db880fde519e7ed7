"""What became of a piece of code, and how a model reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "error", "timeout", "killed", "output", "infrastructure"]


@dataclass(frozen=True)
class ExecutionResult:
    """Outcome of one call.

    Attributes:
        stdout, stderr: what was written, as far as it came; bytes that are no UTF-8 as U+FFFD.
        status: `ok`; `error` (an exception, or an exit code other than 0); `timeout` (of processor
            or clock); `killed` (by a signal); `output` (more than is allowed);
            `infrastructure` (the sandbox failed, which is not the code's fault).
        reason: one line in brackets where stdout and stderr do not say it all, else empty.
        truncated: bytes of output that were not kept.
        exit_code: of the process; None if a signal ended it or it never ran.
        signal: name of the signal that ended it, or None.
        cpu_s, wall_s: seconds of processor time, and on the clock.
        max_rss: bytes of resident memory at most, what it shares with its zygote included.
        attempts: how often it was started, more than once after a failure of the sandbox.
    """

    stdout: str
    stderr: str
    status: Status
    reason: str = ""
    truncated: int = 0
    exit_code: int | None = None
    signal: str | None = None
    cpu_s: float = 0.0
    wall_s: float = 0.0
    max_rss: int = 0
    attempts: int = 1

    @property
    def ok(self) -> bool:
        """Whether the code ran to its end without an error."""
        return self.status == "ok"

    def text(self) -> str:
        """What the model reads: stdout, then the error, then the reason. Never empty."""
        parts = [self.stdout.rstrip("\n"), self.stderr.rstrip("\n"), self.reason]
        shown = "\n".join(part for part in parts if part.strip())
        return shown or "[no output; use print()]"
