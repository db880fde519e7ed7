"""Joining many small remote calls into few: on two cores, their number is most of a step's time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

_SETTLE_SECONDS = 0.003


class Coalescer:
    """Gathers what the tasks of one event loop submit, and hands it over together.

    Args:
        flush: takes the items in the order they came and returns one result each.
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
        seen = 0
        while seen < len(self._waiting):
            seen = len(self._waiting)
            await asyncio.sleep(_SETTLE_SECONDS)
        batch, self._waiting = self._waiting, []
        try:
            results = await self._flush([item for item, _ in batch])
        except Exception as error:
            # Every caller gets it, as it would have got its own call's.
            for _, result in batch:
                if not result.done():
                    result.set_exception(error)
            return
        for (_, result), value in zip(batch, results, strict=True):
            if not result.done():
                result.set_result(value)


class RemoteMethod:
    """Something with `.remote(...)`, as a Ray actor's method, that calls a local coroutine."""

    def __init__(self, function: Callable[..., Awaitable[Any]]) -> None:
        self.remote = function
