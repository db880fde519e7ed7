"""The first code in every jail: it tries to get out, and must fail at everything."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterator

from verl_stare.sandbox.result import ExecutionResult

_CODE = """
import json, os, socket, subprocess, ctypes

def attempt(action):
    try:
        action()
        return True
    except BaseException:
        return False

def read():
    with open({sentinel!r}) as file:
        assert file.read()

def write():
    with open({sentinel!r} + ".written", "w") as file:
        file.write("1")

def fork():
    if os.fork() == 0:
        os._exit(0)

def connect():
    socket.create_connection(("127.0.0.1", 9), 0.2)

def empty():
    try:
        os.truncate({sentinel!r}, 0)
    except OSError:
        os.open({sentinel!r}, os.O_RDONLY | os.O_TRUNC)

def message():
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"1", {sentinel!r} + ".socket")

libc = ctypes.CDLL(None)
print(json.dumps({{
    "a socket": attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
    "a connection": attempt(connect),
    "a file of this machine, read": attempt(read),
    "a file of this machine, written": attempt(write),
    "a file of this machine, emptied": attempt(empty),
    "a message to another process": attempt(message),
    "the environment of its parent": attempt(
        lambda: open("/proc/%d/environ" % os.getppid()).read(1)
    ),
    "another process": attempt(fork),
    "another program": attempt(lambda: subprocess.run(["true"])),
    "the end of its parent": attempt(lambda: os.kill(os.getppid(), 0)),
    "the trace of its parent": libc.ptrace(16, os.getppid(), 0, 0) == 0,
    "a namespace of its own": libc.unshare(0x10000000) == 0,
}}))
"""


class JailBroken(RuntimeError):
    """Code in the jail did what it must not."""


def examine(run: Callable[[bytes], ExecutionResult], *, files: bool) -> list[str]:
    """Run the canary; the names of what it was kept from.

    Args:
        run: runs code in the jail.
        files: whether the tier guards files.

    Raises:
        JailBroken: something worked, named; or the canary did not come to its end.
    """
    with _sentinel() as sentinel:
        result = run(_CODE.format(sentinel=sentinel).encode())
        written = os.path.exists(sentinel + ".written")
        emptied = os.path.getsize(sentinel) == 0
    try:
        worked = json.loads(result.stdout)
    except ValueError:
        raise JailBroken(f"the canary did not come to its end: {result.text()}") from None
    for name, seen in (("written", written), ("emptied", emptied)):
        name = f"a file of this machine, {name}"
        worked[name] = worked.get(name, False) or seen
    guarded = {
        name: done
        for name, done in worked.items()
        if files or ("file" not in name and "environment" not in name)
    }
    got = [name for name, done in guarded.items() if done]
    if got:
        raise JailBroken(f"code in the sandbox got: {', '.join(got)}")
    return list(guarded)


@contextlib.contextmanager
def _sentinel() -> Iterator[str]:
    """A file that anyone may read, outside of the jail."""
    with tempfile.TemporaryDirectory(prefix="verl-stare-") as folder:
        os.chmod(folder, 0o777)
        path = os.path.join(folder, "sentinel")
        with open(path, "w") as file:
            file.write(secrets.token_hex(8))
        os.chmod(path, 0o666)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mailbox:
            mailbox.bind(path + ".socket")
            os.chmod(path + ".socket", 0o666)
            yield path
