"""Starts Python processes as forks of one interpreter that has imported what they all import.

    python forked.py serve SOCKET          the interpreter; it ends with its standard input
    python forked.py run SOCKET ...        in place of `python ...`: one fork, with its exit code
    python forked.py leave SOCKET ...      the same, without waiting for it: Ray's workers

A run of verl's trainer starts some nine Python processes, each of which spends four seconds of a
core on importing torch, transformers and the like. verl, Ray and this package are imported by every
process itself, as otherwise: they act on their environment when they are imported.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

LIBRARIES = (
    "accelerate", "aiohttp", "cachetools", "codetiming", "datasets", "fastapi", "hydra", "jinja2",
    "numpy", "omegaconf", "pandas", "peft", "pyarrow.parquet", "sympy", "tensordict", "torch",
    "torch._dynamo", "torch.distributed.checkpoint", "torch.distributed.fsdp", "torchdata",
    "torchdata.stateful_dataloader", "tqdm", "transformers", "transformers.trainer",
    "transformers.models.auto.modeling_auto", "transformers.models.llama.modeling_llama",
    "transformers.models.qwen2.modeling_qwen2", "uvicorn", "zmq",
)  # fmt: skip


# Of a fork that was killed.
KILLED = 137


def run(address: str, arguments: list[str], *, wait: bool) -> int:
    """Ask for a fork with this process's arguments, environment, folder and streams."""
    import json

    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(address)
        request = json.dumps([arguments, dict(os.environ), os.getcwd()]).encode()
        socket.send_fds(channel, [len(request).to_bytes(8, "big")], [0, 1, 2])
        channel.sendall(request)
        channel.recv(1)
        # Ray goes by the process that registers with it, not by the one that it has started.
        return (channel.recv(1) or bytes([KILLED]))[0] if wait else 0


def serve(address: str) -> None:
    import gc
    import importlib
    import select

    for name in LIBRARIES:
        importlib.import_module(name)
    assert not {"ray", "verl", "verl_stare"} & set(sys.modules)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen(64)
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([server, 0], [], [])
            if 0 in ready:
                return
            channel, _ = server.accept()
            if os.fork() == 0:
                server.close()
                _become(channel)
            channel.close()


def _become(channel: socket.socket) -> None:
    import json
    import traceback

    import numpy as np

    with channel.makefile("rb") as stream:
        length, streams, _, _ = socket.recv_fds(channel, 8, 3)
        arguments, variables, folder = json.loads(stream.read(int.from_bytes(length, "big")))
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    channel.send(b"+")
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    np.random.seed()
    code = 1
    try:
        _interpret(arguments)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        import atexit

        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        with contextlib.suppress(OSError):
            channel.send(bytes([code & 255]))
        os._exit(code)


def _interpret(arguments: list[str]) -> None:
    """As `python` does: `-m module ...` or `script ...`."""
    import runpy

    while arguments[0].startswith("-") and arguments[0] != "-m":
        arguments.pop(0)
    path = list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    if arguments[0] == "-m":
        sys.path[:1] = [os.getcwd(), *path]
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[:1] = [os.path.dirname(arguments[0]), *path]
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


class Interpreter:
    """The interpreter that is forked, while it is open."""

    def __init__(self, address: Path, variables: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, __file__, "serve", str(address)],
            env={**variables, "PYTHONPATH": ""},
            stdin=pipe,
            stdout=pipe,
            text=True,
        )
        self._address = str(address)
        assert self._process.stdin is not None and self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def command(self, action: str) -> list[str]:
        """What stands for `python`; the action is `run` or `leave`."""
        return [sys.executable, "-I", "-S", __file__, action, self._address]

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


if __name__ == "__main__":
    action, place, *rest = sys.argv[1:]
    if action == "serve":
        serve(place)
    else:
        sys.exit(run(place, rest, wait=action == "run"))
