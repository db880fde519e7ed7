"""Joining many small remote calls into few: on two cores, their number is most of a step's time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

SETTLE_SECONDS = 0.003


async def settled(count: Callable[[], int]) -> None:
    """Wait until `count` has stopped growing for a moment: a burst is then complete."""
    seen = -1
    while seen < count():
        seen = count()
        await asyncio.sleep(SETTLE_SECONDS)


class Coalescer:
    """Gathers what the tasks of one event loop submit, and hands it over together.

    Args:
        flush: takes the items in the order they came and returns one result each. A result that is
            an exception is raised to its own caller; an exception of `flush` itself, to every one.
    """

    def __init__(self, flush: Callable[[list[Any]], Awaitable[list[Any]]]) -> None:
        self._flush = flush
        self._waiting: list[tuple[Any, asyncio.Future[Any]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, item: Any) -> Any:
        """The result of `item`, once the batch that it fell into is done."""
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        if len(self._waiting) == 1:
            task = asyncio.create_task(self._gather())
            # The loop itself keeps only weak references to tasks.
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await result

    async def _gather(self) -> None:
        await settled(lambda: len(self._waiting))
        batch, self._waiting = self._waiting, []
        try:
            results = await self._flush([item for item, _ in batch])
            if len(results) != len(batch):
                raise RuntimeError(f"{len(batch)} calls were joined, {len(results)} came back")
        except Exception as error:
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


class RemoteMethod:
    """Something with `.remote(...)`, as a Ray actor's method, that calls a local coroutine."""

    def __init__(self, function: Callable[..., Awaitable[Any]]) -> None:
        self.remote = function
