"""The same cases for a user without privileges, as in a container that does not run as root."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

from verl_stare.sandbox import probe

ROOT = Path(__file__).parents[2]
NOBODY = 65_534
FILES = ("test_cases.py", "test_pool.py", "test_limits.py")


def environment(tmp_path: Path) -> dict[str, str]:
    packages = sysconfig.get_path("purelib")
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(ROOT), packages]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def interpreter(tmp_path: Path) -> str | None:
    """One that this user may run, and whose packages are those of this environment."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            done = subprocess.run(
                [python, "-c", "import numpy, sympy, pytest, pyseccomp, py_landlock, httpx"],
                user=NOBODY, group=NOBODY, extra_groups=[], cwd=ROOT,
                env=environment(tmp_path), capture_output=True, timeout=120,
            )  # fmt: skip
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run without privileges already")
def test_the_same_for_a_user_without_privileges() -> None:
    # pytest's own folders are for one user.
    tmp_path = Path(tempfile.mkdtemp(prefix="verl-stare-nobody-"))
    tmp_path.chmod(0o777)
    try:
        run(tmp_path)
    finally:
        shutil.rmtree(tmp_path)


def run(tmp_path: Path) -> None:
    python = interpreter(tmp_path)
    if python is None:
        pytest.skip("no interpreter that another user may run has these packages")
    done = subprocess.run(
        [
            python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-n", "3",
            f"--basetemp={tmp_path}/run", *(f"tests/sandbox/{name}" for name in FILES),
        ],
        user=NOBODY, group=NOBODY, extra_groups=[], cwd=ROOT,
        env=environment(tmp_path), capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    # Skipped where a tier does not hold for this user, which it does for root.
    for tier in ("bwrap", "landlock"):
        if probe(tier).holds:
            assert f"{tier}: " not in done.stdout.partition("short test summary")[2]
    assert " passed" in done.stdout
