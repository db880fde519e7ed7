"""Writing files whole or not at all, whoever reads them or kills us meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`, which takes its place when the block ends without error.

    The temporary name keeps the suffix of `path`, by which some writers choose a format.
    """
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def replace_text(path: Path, text: str) -> None:
    """Write `text` to `path`, all of it or nothing."""
    with replacing(path) as temporary:
        temporary.write_text(text)
