"""A thread that lasts as long as this process, to start jails from.

The kernel kills a jail when the thread that started it ends, not when the process does.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_Result = TypeVar("_Result")
_tasks: queue.SimpleQueue[Callable[[], None]] | None = None
_tasks_lock = threading.Lock()


def in_lasting_thread(task: Callable[[], _Result]) -> _Result:
    """Run it there, wait, and give or raise what it does."""
    global _tasks
    with _tasks_lock:
        if _tasks is None:
            _tasks = queue.SimpleQueue()
            threading.Thread(target=_work, args=(_tasks,), daemon=True, name="sandbox").start()
        tasks = _tasks
    future: Future[_Result] = Future()

    def run() -> None:
        try:
            future.set_result(task())
        except BaseException as error:
            future.set_exception(error)

    tasks.put(run)
    return future.result()


def _work(tasks: queue.SimpleQueue[Callable[[], None]]) -> None:
    while True:
        tasks.get()()


def _forget() -> None:
    # The thread is not there in a forked process.
    global _tasks, _tasks_lock
    _tasks = None
    _tasks_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)
