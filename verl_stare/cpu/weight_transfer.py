"""verl's transfer of new weights to vLLM, through shared memory, made safe on a shared machine.

- The socket's name holds only Ray's job id, the same in every cluster of its own, so two runs on a
  machine would get each other's weights. Here it holds the cluster's node process as well.
- A process that is killed during a transfer leaves its file in /dev/shm. Here the file loses its
  name as soon as both sides have opened it, so that the system frees it with the processes.
- If vLLM's worker fails or dies, the trainer waits for it forever. Here it fails after a while.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import wrapt

from verl_stare.cpu.activation import has

# Far more than a transfer takes; a dead worker is no reason to hurry.
ANSWER_SECONDS = 300
_MODULE = "verl.workers.rollout.vllm_rollout.bucketed_weight_transfer"
# Ray sets it in every worker of a node, and vLLM's processes inherit it from theirs.
_NODE = "RAY_RAYLET_PID"
_made: list[Any] = []


def install() -> None:
    """Register the hook; nothing of verl is imported."""
    wrapt.register_post_import_hook(_wrap, _MODULE)


def _wrap(module: ModuleType) -> None:
    sender, receiver = "BucketedWeightSender", "BucketedWeightReceiver"
    parts = [
        has(module, f"{sender}.__init__", ("self", "zmq_handle")),
        has(module, f"{receiver}.__init__", ("self", "zmq_handle")),
        has(module, f"{sender}._init_socket", ("self",)),
        has(module, f"{sender}._init_buffer", ("self",)),
        has(module, "create_shared_memory", ("size", "name")),
        has(module, f"{sender}.async_send_weights", ("self", "weights")),
    ]
    if not all(parts):
        return
    for name, wrapper in (
        (f"{sender}.__init__", _own_socket),
        (f"{receiver}.__init__", _own_socket),
        (f"{sender}._init_socket", _limit_waiting),
        ("create_shared_memory", _remember),
        (f"{sender}._init_buffer", _unlink_once_open),
        (f"{sender}.async_send_weights", _explain_silence),
    ):
        wrapt.wrap_function_wrapper(module, name, wrapper)


def _own_socket(wrapped: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    handle, *others = args or (kwargs.pop("zmq_handle"),)
    node = os.environ.get(_NODE)
    if node:
        handle = f"{handle.removesuffix('.sock')}-node-{node}.sock"
    wrapped(handle, *others, **kwargs)


def _limit_waiting(
    wrapped: Any, sender: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    import zmq

    wrapped(*args, **kwargs)
    # Sending waits too, for a receiver that has not connected yet.
    for option in (zmq.SNDTIMEO, zmq.RCVTIMEO):
        sender.socket.setsockopt(option, ANSWER_SECONDS * 1000)
    # And so would the end of the process, for what was not received.
    sender.socket.setsockopt(zmq.LINGER, 0)


def _remember(wrapped: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    memory = wrapped(*args, **kwargs)
    _made.append(memory)
    return memory


def _unlink_once_open(wrapped: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        # Makes the file, and returns when the receiver has opened it.
        wrapped(*args, **kwargs)
    finally:
        while _made:
            memory = _made.pop()
            memory.unlink()
            # verl does so again at the end, unless this has failed.
            memory.unlink = lambda: None


def _explain_silence(
    wrapped: Any, sender: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    import zmq

    async def send() -> None:
        try:
            await wrapped(*args, **kwargs)
        except zmq.Again as error:
            raise RuntimeError(
                f"vLLM's worker has not answered for {ANSWER_SECONDS} s while it was sent weights"
            ) from error

    return send()
