"""No child outlives the demo unnoticed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.trainer import ROOT

PARENT = """
import fcntl, os, sys
sys.path.insert(0, sys.argv[1])
from children import run
lock = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
sys.exit(run(["sh", "-c", "echo $$ > " + sys.argv[3] + "; exec sleep 60"], lock))
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_killed_parent_takes_its_child_along_and_frees_the_lock(tmp_path: Path) -> None:
    lock, pid_file = tmp_path / "lock", tmp_path / "pid"
    command = [sys.executable, "-c", PARENT, str(ROOT / "recipes" / "demo"), lock, pid_file]
    parent = subprocess.Popen([str(part) for part in command])
    while not (pid_file.exists() and pid_file.read_text().strip()):
        assert parent.poll() is None
        time.sleep(0.05)
    child = int(pid_file.read_text())
    # A second run is refused while the first one's child lives.
    second = subprocess.run([str(part) for part in command], capture_output=True, check=False)
    assert b"BlockingIOError" in second.stderr
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 20
    while alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)
