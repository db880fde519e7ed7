"""What one piece of code may use: time, memory, files, output."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Limits:
    """Limits of one call.

    Attributes:
        cpu_s: seconds of processor time, all threads together.
        wall_s: seconds on the clock, from the start of the run; waiting for a free place is not
            counted.
        memory: bytes of address space of the process, of which the interpreter with numpy and sympy
            takes some 0.4 GiB.
        files: open files.
        threads: at once; looked at some ten times a second.
        entries: files and folders in the work directory, looked at as often.
        file_size: bytes that one file may grow to.
        workdir: bytes of the work directory, and of /dev/shm (tier bwrap).
        output: bytes of stdout and stderr together; the code is ended at that.
        source: bytes of code.
    """

    cpu_s: float = 8.0
    wall_s: float = 10.0
    memory: int = 2 * GIB
    files: int = 64
    threads: int = 128
    entries: int = 10_000
    file_size: int = 16 * MIB
    workdir: int = 32 * MIB
    output: int = 8 * MIB
    source: int = 1 * MIB

    def __post_init__(self) -> None:
        for key, (lowest, highest) in _ALLOWED.items():
            value = getattr(self, key)
            whole = key not in {"cpu_s", "wall_s"}
            kind = "a whole number" if whole else "a number"
            if (
                isinstance(value, bool)
                or not isinstance(value, int if whole else int | float)
                or not lowest <= value <= highest
            ):
                raise ValueError(
                    f"sandbox limit {key}={value!r}: allowed is {kind} from {lowest} to {highest}"
                )

    @classmethod
    def from_mapping(cls, values: dict[str, Any]) -> Limits:
        """Limits by their names, as a configuration writes them.

        Raises:
            ValueError: an unknown name, or a value out of its range.
        """
        names = {field.name for field in fields(cls)}
        for name in values:
            if name not in names:
                raise ValueError(
                    f"sandbox limit {name!r} is unknown: allowed are {', '.join(sorted(names))}"
                )
        return cls(**values)

    def as_dict(self) -> dict[str, float | int]:
        """By name, as they go to the jail."""
        return asdict(self)


_ALLOWED: dict[str, tuple[float, float]] = {
    "cpu_s": (0.1, 3600),
    "wall_s": (0.1, 3600),
    "memory": (512 * MIB, 1 << 40),
    "files": (16, 4096),
    "threads": (1, 100_000),
    "entries": (1, 10_000_000),
    "file_size": (0, 1 << 40),
    "workdir": (1 * MIB, 1 << 40),
    "output": (1 * KIB, 1 * GIB),
    "source": (1 * KIB, 64 * MIB),
}
