"""The output of one process: its pipes, and what is kept of it."""

from __future__ import annotations

import mmap
import os

_CHUNK = 1 << 16
# Of those that a process without privileges can make.
_LARGEST_PIPE = 1 << 20


class Pipes:
    """stdout and stderr of one process."""

    def __init__(self) -> None:
        self.out_read, self.out_write = os.pipe()
        self.err_read, self.err_write = os.pipe()
        self._open = {self.out_read, self.out_write, self.err_read, self.err_write}
        for descriptor in (self.out_read, self.err_read):
            os.set_blocking(descriptor, False)

    def close_write_ends(self) -> None:
        """Once the process has them."""
        for descriptor in (self.out_write, self.err_write):
            self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        """All ends that are open."""
        for descriptor in list(self._open):
            self._close(descriptor)

    def __enter__(self) -> Pipes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Kept:
    """What has come out of two pipes, up to a number of bytes together.

    In mappings of its own, which go back to the system at the end: in the allocator's memory, each
    thread that makes calls would hold on to several times the limit.

    Attributes:
        open: the pipes, by their descriptors, that have not ended.
        dropped: bytes that came and are not kept.
    """

    def __init__(self, pipes: Pipes, most: int) -> None:
        self._most = most
        self._streams = pipes.out_read, pipes.err_read
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._memory = {fd: mmap.mmap(-1, most, flags=private) for fd in self._streams}
        self._size = dict.fromkeys(self._streams, 0)
        self.open = set(self._streams)
        self.dropped = 0

    def read(self, descriptor: int) -> int:
        """Read once from a pipe; the number of bytes, 0 if it is empty, or has ended."""
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return 0
        if not chunk:
            self.open.discard(descriptor)
        room = min(len(chunk), self._most - sum(self._size.values()))
        start = self._size[descriptor]
        self._memory[descriptor][start : start + room] = chunk[:room]
        self._size[descriptor] += room
        self.dropped += len(chunk) - room
        return len(chunk)

    def drain(self) -> None:
        """Read what is left in the pipes; no more, since a session's threads may go on writing."""
        for descriptor in self._streams:
            left = _LARGEST_PIPE
            while descriptor in self.open and left > 0 and (found := self.read(descriptor)):
                left -= found

    def texts(self) -> tuple[str, str]:
        """stdout and stderr; what is not UTF-8 is replaced."""
        out, err = (self._text(descriptor) for descriptor in self._streams)
        return out, err

    def _text(self, descriptor: int) -> str:
        with memoryview(self._memory[descriptor]) as view:
            return str(view[: self._size[descriptor]], "utf-8", "replace")

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None:
        for memory in self._memory.values():
            memory.close()
