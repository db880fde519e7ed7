"""Lets nothing of vLLM's stay in /dev/shm.

vLLM's processes talk through shared memory, which is removed by the process that made it, or by
Python's resource tracker if that is killed. At the end of a run Ray kills them all, the tracker
too. Here a file loses its name once its only reader has opened it, so that the system frees it.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import wrapt

from verl_stare.bridge import seams
from verl_stare.cpu.activation import has

_MODULE = "vllm.distributed.device_communicators.shm_broadcast"
_NAME = "ShmRingBuffer.__init__"


def install() -> None:
    """Wrap the constructor of vLLM's ring buffer."""
    try:
        module = importlib.import_module(_MODULE)
    except ImportError as error:
        # Only tidiness is at stake.
        seams.report(f"{_MODULE} cannot be imported ({error})", "tidying of /dev/shm")
        return
    if has(module, _NAME, ("self", "n_reader", "max_chunk_bytes", "max_chunks", "name")):
        wrapt.wrap_function_wrapper(module, _NAME, _unlink_once_open)


def _unlink_once_open(
    wrapped: Any, buffer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    wrapped(*args, **kwargs)
    memory = getattr(buffer, "shared_memory", None)
    if memory is None or buffer.n_reader != 1:
        return
    if buffer.is_creator:
        remove = memory.unlink

        def unlink() -> None:
            # The reader may have done it.
            with contextlib.suppress(FileNotFoundError):
                remove()

        memory.unlink = unlink
    else:
        memory.unlink()
