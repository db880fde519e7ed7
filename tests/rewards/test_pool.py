"""The processes that do the algebra: killable, none left over, no memory kept."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from verl_stare.rewards import pool
from verl_stare.rewards.worker import REQUESTS_PER_CHILD

ENDLESS = ("5^{5^{5^{5}}}", r"\sqrt{2}")


@pytest.fixture
def one():
    made = pool.Pool(1)
    yield made
    made.close()


def children(pid: int) -> set[int]:
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        if parent == pid:
            found |= {int(stat.parent.name)} | children(int(stat.parent.name))
    return found


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids: set[int], within: float = 10.0) -> bool:
    deadline = time.monotonic() + within
    while any(map(running, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def verdict(asked: pool.Pool, one: str, other: str) -> bool | None:
    return asked.equal(one, other, 5.0).verdict


def test_a_request_is_cut_short_and_the_next_is_answered(one: pool.Pool) -> None:
    assert verdict(one, r"\sqrt{8}", r"2\sqrt{2}") is True
    assert one.equal(*ENDLESS, 0.2) == pool.Reply(None, cut_short=True, seconds=0.2)
    assert verdict(one, r"\sqrt{8}", r"2\sqrt{2}") is True
    assert verdict(one, r"\sqrt{8}", r"3\sqrt{2}") is False


def test_workers_load_neither_the_trainer_nor_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", pool._program()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == '"ready"\n'
    loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert {"sympy", "verl_stare"} <= loaded
    assert not loaded & {"verl", "ray", "hydra", "torch", "transformers"}


def test_a_child_ends_after_its_share_of_requests(one: pool.Pool) -> None:
    assert verdict(one, "1", "2") is False
    first = _answering(one)
    for n in range(1, REQUESTS_PER_CHILD - 1):
        assert verdict(one, str(n), str(n)) is True
    assert _answering(one) == first
    assert verdict(one, "1", "2") is False
    assert gone({first})
    assert verdict(one, "1", "1") is True
    assert _answering(one) != first


WORKER = """
from verl_stare.rewards import worker
worker.{limit} = {value}
worker.main()
"""


@pytest.mark.parametrize(("growth", "children"), [(-1, 3), (1 << 40, 1)])
def test_a_child_that_has_grown_ends(growth: int, children: int, tmp_path: Path) -> None:
    """After every request if any size is too large, and otherwise not."""
    program = WORKER.format(limit="GROWTH_PER_CHILD", value=growth)
    # The algebra says which process it is.
    program = "import os; from verl_stare.rewards import algebra\n" + (
        "algebra.equal = lambda one, other: os.getpid()\n" + program
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == "ready"
        answered = []
        for number in range(1, 4):
            request = {"number": number, "one": "1", "other": "1", "seconds": 5.0}
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            answered.append(json.loads(process.stdout.readline())["verdict"])
        process.stdin.close()
    assert process.returncode == 0
    assert len(set(answered)) == children


def test_children_that_die_at_once_are_not_forked_for_ever() -> None:
    program = WORKER.format(limit="_serve", value="lambda *_: None")
    done = subprocess.run(
        [sys.executable, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, timeout=120
    )
    assert done.stdout == b'"ready"\n'


def test_a_worker_that_is_killed_is_replaced(one: pool.Pool) -> None:
    assert verdict(one, "1+i", "i+1") is True
    [worker] = one._workers
    victims = {worker._process.pid} | children(worker._process.pid)
    for victim in victims:
        # A child ends by itself as soon as its parent is gone.
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    assert gone(victims)
    # The process was gone before it could be asked: it is started again.
    assert verdict(one, "2+i", "i+2") is True


def _answering(asked: pool.Pool) -> int:
    """The child that takes the requests."""
    [worker] = asked._workers
    [child] = children(worker._process.pid)
    return child


def test_an_idle_child_that_dies_mixes_up_no_answers(one: pool.Pool) -> None:
    for n in range(2, 6):
        assert verdict(one, rf"\sqrt{{{4 * n}}}", rf"2\sqrt{{{n}}}") is True
        child = _answering(one)
        os.kill(child, signal.SIGKILL)
        assert gone({child})
        assert verdict(one, rf"\sqrt{{{4 * n}}}", rf"3\sqrt{{{n}}}") is False


def test_a_child_that_dies_at_work_is_asked_again(one: pool.Pool) -> None:
    assert verdict(one, "1+i", "i+1") is True
    child = _answering(one)
    threading.Timer(0.5, os.kill, (child, signal.SIGKILL)).start()
    # The second time it is the limit that ends it.
    assert one.equal(*ENDLESS, 2.0) == pool.Reply(None, cut_short=True, seconds=2.0)
    assert verdict(one, "2+i", "i+2") is True


class Interrupted(BaseException):
    """Such as Ctrl-C."""


def test_an_interrupted_question_is_not_answered_later(
    one: pool.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verdict(one, r"\sqrt{8}", r"2\sqrt{2}") is True

    def interrupted(self: object, seconds: float) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(pool._Worker, "_line", interrupted)
        with pytest.raises(Interrupted):
            verdict(one, r"\sqrt{8}", r"3\sqrt{2}")
    assert verdict(one, r"\sqrt{8}", r"2\sqrt{2}") is True


def test_no_file_of_the_working_directory_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sympy.py").write_text("raise SystemExit('run')")
    (tmp_path / "json.py").write_text("raise SystemExit('run')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    made = pool.Pool(1)
    assert verdict(made, "5+i", "i+5") is True
    made.close()


def test_closing_leaves_no_process(one: pool.Pool) -> None:
    before = children(os.getpid())
    verdict(one, r"\sqrt{2}", r"\sqrt{3}")
    started = children(os.getpid()) - before
    assert len(started) == 2  # the one that holds the libraries, and its child
    one.close()
    assert gone(started)


SCRIPT = """
import os, signal, sys
from verl_stare.rewards import equivalent, pool
assert equivalent(r"\\sqrt{8}", r"2\\sqrt{2}").equal
sys.path.insert(0, sys.argv[1])
from tests.rewards.test_pool import children
print(*children(os.getpid()), flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "killed while it computes":
    import threading
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    equivalent("5^{5^{5^{5}}}", r"\\sqrt{2}", time_limit=2.0)
"""


@pytest.mark.parametrize("end", ["at its end", "killed", "killed while it computes"])
def test_workers_end_with_whoever_asks(end: str) -> None:
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, root, end], capture_output=True, text=True, timeout=120
    )
    started = {int(pid) for pid in done.stdout.split()}
    assert len(started) >= 2, done.stderr
    assert gone(started)


def test_threads_share_the_processes() -> None:
    shared = pool.Pool(2)
    before = children(os.getpid())
    questions = [(rf"\sqrt{{{4 * n}}}", rf"2\sqrt{{{n}}}") for n in range(2, 26)]
    wrong = [(rf"\sqrt{{{4 * n}}}", rf"3\sqrt{{{n}}}") for n in range(2, 26)]
    with ThreadPoolExecutor(12) as threads:
        verdicts = list(threads.map(lambda pair: verdict(shared, *pair), questions + wrong))
    started = children(os.getpid()) - before
    shared.close()
    assert verdicts == [True] * len(questions) + [False] * len(wrong)
    assert len(started) <= 4


def test_a_forked_process_makes_its_own() -> None:
    assert pool.equal("3+i", "i+3", 5.0)[0] is True
    mine = pool.get()
    # Not their children, which end after some hundred requests.
    workers = {worker._process.pid for worker in mine._workers}
    child = os.fork()
    if child == 0:
        right = pool._pool is None and pool.equal(r"\sqrt{12}", r"2\sqrt{3}", 30.0)[0] is True
        pool.get().close()
        # What its end would run.
        mine.close()
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pool.get() is mine
    assert workers
    assert all(map(running, workers))
    assert pool.equal("4+i", "i+4", 5.0)[0] is True


def test_what_took_too_long_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Slow:
        def equal(self, one: str, other: str, seconds: float) -> pool.Reply:
            asked.append(seconds)
            return pool.Reply(None, cut_short=True, seconds=seconds)

    monkeypatch.setattr(pool, "get", Slow)
    assert pool.equal("slow", "question", 3.0)[0] is None
    assert pool.equal("slow", "question", 3.0)[0] is None
    assert asked == [3.0]
    assert pool.equal("slow", "question", 9.0)[0] is None
    assert asked == [3.0, 9.0]


def test_a_worker_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = pool.Pool(1)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(pool.Unavailable, match="the grader's worker does not start"):
        broken.equal("1+i", "i+1", 5.0)


@pytest.mark.parametrize("written", ["0", "many", "65", "-1"])
def test_number_of_processes(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv(pool.PROCESSES_VARIABLE, written)
    with pytest.raises(ValueError, match=f"{pool.PROCESSES_VARIABLE}='{written}': allowed are"):
        pool._size()
    monkeypatch.setenv(pool.PROCESSES_VARIABLE, "3")
    assert pool._size() == 3
