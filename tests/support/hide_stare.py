"""Loaded by VERL_USE_EXTERNAL_MODULES: a process in which this package is not installed."""

import sys
from collections.abc import Sequence
from types import ModuleType


class _Hidden:
    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> None:
        if name.split(".")[0] == "verl_stare":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, _Hidden)
