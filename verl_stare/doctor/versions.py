"""Versions of what STARE runs on."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import verl_stare
from verl_stare.doctor.report import Line, fail, note, ok

REQUIRED = ("torch", "ray", "TransferQueue", "transformers", "tensordict")
OPTIONAL = {"vllm": "rollout on GPUs"}


def installed() -> dict[str, str | None]:
    """Version of each, None if it is not installed. Imports verl."""
    import verl

    found: dict[str, str | None] = {
        "python": platform.python_version(),
        "verl_stare": verl_stare.__version__,
        "verl": verl.__version__,
    }
    for name in (*REQUIRED, *OPTIONAL):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def check() -> Iterator[Line]:
    """Each version, and whether verl's is supported."""
    yield ok(f"python {platform.python_version()} ({sys.executable})")
    yield ok(f"verl_stare {verl_stare.__version__} ({Path(verl_stare.__file__).parent})")
    found = installed()
    import verl

    from verl_stare.bridge import seams

    verdict = ok if verl.__version__ in seams.SUPPORTED_VERL else fail
    yield verdict(f"verl {verl.__version__} (supported: {seams.SUPPORTED_VERL})")
    for name in REQUIRED:
        version = found[name]
        yield fail(f"{name} is not installed") if version is None else ok(f"{name} {version}")
    for name, use in OPTIONAL.items():
        version = found[name]
        missing = note(f"{name} is not installed (optional: {use})")
        yield missing if version is None else ok(f"{name} {version}")
