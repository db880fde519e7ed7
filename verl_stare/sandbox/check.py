"""`verl-stare sandbox check`: which tier holds on this machine, layer by layer."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable

from verl_stare.sandbox import jail, syscalls, tiers
from verl_stare.sandbox.limits import Limits
from verl_stare.sandbox.pool import PRELOAD, Pool, installed
from verl_stare.sandbox.tiers import SandboxUnavailable


def run(wanted: str = tiers.AUTO) -> int:
    """Print each layer's probe, the canary's outcome in each tier, and the tier that is chosen.

    Returns:
        0 if the wanted tier is to be had, else 1.
    """
    who = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
    print(f"machine      {platform.system()} {platform.release()} {platform.machine()}, {who}")
    for name, layer in _LAYERS.items():
        try:
            print(f"{name:<12} {layer()}")
        except Exception as error:
            print(f"{name:<12} MISSING: {error}")
    print()
    considered = tiers.AUTOMATIC if wanted == tiers.AUTO else (wanted,)
    for tier in dict.fromkeys((*tiers.AUTOMATIC, *considered)):
        found = tiers.probe(tier)
        print(f"tier {tier:<10} {'holds' if found.holds else 'DOES NOT HOLD'}: {found.detail}")
    print()
    try:
        with Pool(1, tier=wanted, limits=Limits()) as pool:
            started = time.monotonic()
            pool.warm_up()
            start = time.monotonic() - started
            result = pool.run("import sys\nsys.version.split()[0]")
    except (SandboxUnavailable, ValueError, RuntimeError) as error:
        print(f"FAIL  {error}")
        return 1
    if not result.ok:
        print(f"FAIL  code in the tier {pool.tier} does not run: {result.text()}")
        return 1
    version = result.stdout.strip("'\n")
    print(f"ok    {pool.tier}: Python {version} runs, started in {start:.1f} s")
    if pool.tier == "none":
        print("      files of this machine are NOT guarded: for debugging only")
    return 0


def _bubblewrap() -> str:
    path = jail.find_bubblewrap()
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20)
    return f"{done.stdout.strip() or done.stderr.strip()}, {path}"


def _landlock() -> str:
    from py_landlock.landlock_sys import get_abi_version

    return f"ABI {int(get_abi_version())}"


def _seccomp() -> str:
    from ctypes.util import find_library

    instructions = len(syscalls.compiled(True)) // syscalls.INSTRUCTION_SIZE
    return f"a filter of {instructions} instructions, by {find_library('seccomp')}"


def _namespaces() -> str:
    unshare = shutil.which("unshare")
    if unshare is None:
        return "not tried, there is no unshare(1)"
    done = subprocess.run([unshare, "-U", "true"], capture_output=True, text=True, timeout=20)
    return "users may have their own" if done.returncode == 0 else f"refused: {done.stderr.strip()}"


def _preloaded() -> str:
    missing = sorted(set(PRELOAD) - set(installed(PRELOAD)))
    return ", ".join(installed(PRELOAD)) + (
        f"; not installed: {', '.join(missing)}" if missing else ""
    )


_LAYERS: dict[str, Callable[[], str]] = {
    "bubblewrap": _bubblewrap,
    "namespaces": _namespaces,
    "landlock": _landlock,
    "seccomp": _seccomp,
    "preloaded": _preloaded,
}
