"""The rollout server's queue: concurrent requests become batches, aborts end them early."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from verl_stare.cpu.coalesce import SETTLE_SECONDS, settled
from verl_stare.cpu.generation import Request

logger = logging.getLogger("verl_stare")


@dataclass(frozen=True)
class _Entry:
    name: str
    request: Request
    finished: asyncio.Future[None]


class BatchQueue:
    """Runs what is submitted while a batch runs, or within milliseconds of each other, together.

    Args:
        generate: fills a batch of requests; called in a thread, one batch at a time.
        size: the most requests of a batch.
    """

    def __init__(self, generate: Callable[[list[Request]], None], size: int) -> None:
        self._generate = generate
        self._size = size
        self._waiting: list[_Entry] = []
        self._running: list[_Entry] = []
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # Held while a batch runs: who swaps weights takes it.
        self.idle = asyncio.Lock()

    def start(self) -> None:
        """Begin to serve, in the running event loop."""
        self._task = asyncio.create_task(self._serve())

    async def submit(self, name: str, request: Request) -> None:
        """Return when `request` is filled or aborted.

        Raises:
            RuntimeError: the generation of its batch failed.
        """
        entry = _Entry(name, request, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        self._arrived.set()
        await entry.finished

    def abort(self, name: str | None = None) -> list[str]:
        """End the request of that name, or all, at its next token; returns the names."""
        ended = [e for e in self._waiting + self._running if name is None or e.name == name]
        for entry in ended:
            entry.request.aborted = True
        return [entry.name for entry in ended]

    async def drained(self) -> None:
        """Wait until nothing is waiting or running."""
        while self._waiting or self._running:
            await asyncio.sleep(SETTLE_SECONDS)

    async def _serve(self) -> None:
        while True:
            await self._arrived.wait()
            await settled(lambda: len(self._waiting))
            self._running = self._waiting[: self._size]
            self._waiting = self._waiting[self._size :]
            if not self._waiting:
                self._arrived.clear()
            error = await self._run([e.request for e in self._running if not e.request.aborted])
            for entry in self._running:
                if entry.finished.done():
                    continue
                if error is None:
                    entry.finished.set_result(None)
                else:
                    entry.finished.set_exception(RuntimeError(f"generation failed: {error!r}"))
            self._running = []

    async def _run(self, requests: list[Request]) -> Exception | None:
        if not requests:
            return None
        try:
            async with self.idle:
                await asyncio.to_thread(self._generate, requests)
        except Exception as error:
            # The callers get it; the queue lives on for the next batch.
            logger.exception("generation failed")
            return error
        return None
