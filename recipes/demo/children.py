"""Processes that end with us: what a killed demo started must not go on writing in its folder."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import IO

_PR_SET_PDEATHSIG = 1
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}


def run(
    command: Sequence[str],
    lock: int,
    *,
    environment: dict[str, str] | None = None,
    output: IO[bytes] | None = None,
    watch: Callable[[subprocess.Popen[bytes]], None] | None = None,
) -> int:
    """Run `command` to its end; if we are interrupted or killed, it gets SIGTERM.

    Args:
        command: program and arguments.
        lock: descriptor of the folder's lock, which the child holds as well.
        environment: added to ours.
        output: where stdout and stderr go; ours by default.
        watch: called with the process once it runs; returns when that has ended.

    Returns:
        The exit code.
    """
    process = subprocess.Popen(
        command,
        env={**os.environ, **ENVIRONMENT, **(environment or {})},
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
        preexec_fn=_end_with_parent,
        pass_fds=(lock,),
    )
    try:
        if watch:
            watch(process)
        return process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
