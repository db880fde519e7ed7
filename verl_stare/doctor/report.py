"""Lines of a report. An exception inside a check is a line too, never a traceback."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

Check = Callable[[], Iterable["Line"]]


@dataclass(frozen=True)
class Line:
    """One finding.

    Attributes:
        status: `ok`, `FAIL`, or `note` for what is neither.
        text: one line.
    """

    status: str
    text: str

    def __str__(self) -> str:
        return f"  {self.status:<5} {self.text}"

    @property
    def failed(self) -> bool:
        """Whether it makes the whole check fail."""
        return self.status == "FAIL"


def ok(text: str) -> Line:
    """A finding as it should be."""
    return Line("ok", text)


def fail(text: str) -> Line:
    """A finding that stops STARE."""
    return Line("FAIL", text)


def note(text: str) -> Line:
    """A finding that is neither."""
    return Line("note", text)


def describe(error: BaseException, limit: int = 400) -> str:
    """Class and message of an exception in one line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= limit else f"{text[:limit]} ..."


def guarded(check: Check) -> Iterator[Line]:
    """The lines of `check`, and one more if it raises."""
    try:
        yield from check()
    except Exception as error:
        yield fail(describe(error))


class Report:
    """Prints lines as they come, and counts the failures."""

    def __init__(self) -> None:
        self.failures = 0

    def section(self, title: str, check: Check) -> None:
        """Run one check under a title."""
        # Flushed, because a check may take long.
        print(title, flush=True)
        for line in guarded(check):
            print(line, flush=True)
            self.failures += line.failed

    def close(self) -> int:
        """Print the summary, and return the exit code."""
        checks = "check" if self.failures == 1 else "checks"
        print(f"{self.failures} {checks} failed" if self.failures else "all well")
        return 1 if self.failures else 0


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings and log lines: what matters of them is found by the checks."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
