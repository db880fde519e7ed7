"""Many calls at once: each has its own answer, and a lost jail takes no other call along."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.sandbox import traces
from tests.sandbox.cases import ATTACKS, LISTED
from tests.sandbox.conftest import LIMITS
from verl_stare import sandbox
from verl_stare.sandbox import Limits, Pool

ROOT = Path(__file__).parents[2]


def test_mixed_calls_at_once(pool: Pool) -> None:
    """A tenth is hostile; each gets its own answer, and the first jails serve to the end."""
    quick = [
        "fork bomb",
        "subprocess",
        "memory bomb",
        "host files",
        "os._exit",
        "segmentation fault",
    ]
    hostile = [*(LISTED[name] for name in quick), ATTACKS["limits raised"]]
    draw = random.Random(5)
    jobs = [draw.choice(hostile) if number % 10 == 0 else number for number in range(120)]

    async def ask(job: object) -> None:
        if isinstance(job, int):
            result = await pool.arun(f"print({job})\n{job} * 2")
            assert result.stdout == f"{job}\n{job * 2}\n"
            assert result.stderr == ""
        else:
            result = await pool.arun(job.code)
            assert result.status in job.status.split("|")
            assert any(says in result.text() for says in job.expected(pool.tier))

    async def ask_all() -> None:
        await asyncio.gather(*map(ask, jobs))

    pool.run("pass")
    before = traces.at_rest()
    asyncio.run(ask_all())
    after = traces.settled(pool, before)
    # All places were used; none has more than a jail's processes.
    assert len(pool.pids()) == pool.size
    most = pool.size * (4 if pool.tier == "bwrap" else 2)
    assert len(after.processes) - len(before.processes) <= most


def test_no_more_at_once_than_places(pool: Pool) -> None:
    started = time.monotonic()
    threads = [
        threading.Thread(target=pool.run, args=("import time\ntime.sleep(0.3)",)) for _ in range(4)
    ]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    # Two places: at least two rounds.
    assert time.monotonic() - started >= 0.6


def test_waiting_is_not_counted(pool: Pool) -> None:
    limits = Limits(cpu_s=1, wall_s=1.5)
    results = []
    threads = [
        threading.Thread(
            target=lambda: results.append(pool.run("import time\ntime.sleep(1)", limits))
        )
        for _ in range(6)
    ]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert [result.status for result in results] == ["ok"] * 6


def test_a_killed_jail_is_replaced(pool: Pool) -> None:
    assert pool.run("1").ok
    for pid in pool.pids():
        os.kill(pid, signal.SIGKILL)
    result = pool.run("2")
    assert (result.text(), result.status) == ("2", "ok")


def test_a_jail_killed_in_a_call_hurts_no_sibling(pool: Pool) -> None:
    """The call is made again in another jail; the one beside it goes on."""
    results: dict[str, sandbox.ExecutionResult] = {}

    def ask(name: str) -> None:
        results[name] = pool.run(f"import time\nprint({name!r})\ntime.sleep(1.5)\nprint('end')")

    pool.run("pass")
    threads = [threading.Thread(target=ask, args=(name,)) for name in ("one", "other")]
    for thread in threads:
        thread.start()
    time.sleep(0.7)
    os.kill(pool.pids()[0], signal.SIGKILL)
    for thread in threads:
        thread.join()
    assert results["one"].stdout == "one\nend\n"
    assert results["other"].stdout == "other\nend\n"
    assert sorted(result.attempts for result in results.values()) == [1, 2]


def test_a_jail_that_cannot_be_built_is_a_failure_of_the_sandbox(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in pool.pids():
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.2)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/nonexistent/python")
        result = pool.run("1")
    assert result.status == "infrastructure"
    assert result.attempts == 2
    assert result.text().startswith("[the sandbox failed: ")
    assert pool.run("1").ok


def test_code_is_not_seen_by_the_next_call(pool: Pool) -> None:
    for _ in range(pool.size + 1):
        pool.run(
            "import builtins, sys, math\nbuiltins.secret = 1\nsys.secret = 1\nmath.pi = 3\nx = 1"
        )
    result = pool.run(
        "import builtins, sys, math\n"
        "[hasattr(builtins, 'secret'), hasattr(sys, 'secret'), math.pi, 'x' in globals()]"
    )
    assert result.stdout == "[False, False, 3.141592653589793, False]\n"


def test_random_numbers_differ_from_call_to_call(pool: Pool) -> None:
    code = "import random, numpy as np\nprint(random.random(), np.random.rand())"
    drawn = [number for _ in range(4) for number in pool.run(code).stdout.split()]
    assert len(set(drawn)) == 8


def test_source_that_is_too_long(pool: Pool) -> None:
    result = pool.run("#" * 2_000, Limits(source=1024))
    assert result.status == "error"
    assert result.text() == "[the code has 2000 bytes, and at most 1024 are allowed]"
    assert pool.run("#" * (1 << 20)).ok


def test_output_up_to_the_limit_is_whole(pool: Pool) -> None:
    limits = Limits(output=1 << 20)
    result = pool.run(
        f"import sys\nsys.stdout.write('x' * {(1 << 20) - 6}); print('end', end='')", limits
    )
    assert result.status == "ok"
    assert result.stdout.endswith("xend")
    result = pool.run(f"print('x' * {2 << 20})", limits)
    assert result.status == "output"
    assert result.stdout == "x" * (1 << 20)
    # With the end of the line.
    assert 0 < result.truncated <= (1 << 20) + 1


def test_a_session_keeps_its_variables(pool: Pool) -> None:
    with pool.session() as session, pool.session() as other:
        assert session.run("x = 1").text() == "[no output; use print()]"
        assert other.run("x = 5").ok
        assert session.run("x += 1\nx").text() == "2"
        assert session.run("1 / 0").status == "error"
        assert session.run("x").text() == "2"
        assert other.run("x").text() == "5"
    assert "NameError" in pool.run("x").text()


def test_a_session_starts_anew_after_its_process_has_ended(pool: Pool) -> None:
    with pool.session() as session:
        session.run("x = 1")
        result = session.run("print('a')\nwhile True: pass")
        assert result.stdout == "a\n"
        assert result.status == "timeout"
        assert result.reason.endswith("; the variables of the session are gone]")
        assert "NameError" in session.run("x").text()
        assert session.run("import os\nos._exit(3)").exit_code == 3
        assert session.run("x = 2\nx").text() == "2"


def test_the_end_of_a_session_is_no_success(pool: Pool) -> None:
    with pool.session() as session:
        session.run("x = 1")
        result = session.run("import os\nos._exit(0)")
        assert result.status == "error"
        assert "the process of the session has ended; the variables" in result.text()
        assert "NameError" in session.run("x").text()


def test_what_is_slow_to_remove_is_not_the_codes_failure() -> None:
    """Cleaning up has its own time; a jail that takes longer is given up."""
    with Pool(1, limits=Limits(cpu_s=5, wall_s=10, entries=1_000_000)) as made:
        if made.tier != "bwrap":
            pytest.skip("no file can be written in this tier")
        code = (
            "import os, time\nn = 0\nwhile time.process_time() < 1.5:\n  os.mkdir(str(n)); n += 1"
        )
        result = made.run(code + "\nprint('finished')")
        assert (result.status, result.stdout, result.attempts) == ("ok", "finished\n", 1)
        started = time.monotonic()
        assert made.run("import os\nos.listdir('.')").text() == "[]"
        assert time.monotonic() - started < 60


def test_code_that_takes_its_jail_along_is_killed(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is no failure of the sandbox, which would leave the trajectory out of the loss."""
    from verl_stare.sandbox.process import DiedInRun, Zygote

    def dies(self: Zygote, *_: object) -> None:
        raise DiedInRun("gone")

    with monkeypatch.context() as patch:
        patch.setattr(Zygote, "run", dies)
        result = pool.run("1")
    assert (result.status, result.attempts) == ("killed", 2)
    assert result.text() == "[killed: the sandbox ended with the code: gone]"


WAITING = """
import asyncio, sys
from verl_stare.sandbox import Pool
pool = Pool(1, tier=sys.argv[1])
session = pool.session()
session.run("x = 1")
async def main():
    task = asyncio.create_task(pool.arun("2"))
    await asyncio.sleep(0.2)
    task.cancel()
asyncio.run(main())
print("end", flush=True)
"""


def test_a_call_that_waits_does_not_hold_up_the_end(pool: Pool) -> None:
    command = [sys.executable, "-c", WAITING, pool.tier]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "end\n"


def test_each_cell_of_a_session_has_its_own_seconds(pool: Pool) -> None:
    burn = "import time\nend = time.process_time() + 0.8\nwhile time.process_time() < end: pass"
    with pool.session(Limits(cpu_s=1, wall_s=10)) as session:
        assert [session.run(burn).status for _ in range(4)] == ["ok"] * 4


SLEEPERS = """
import threading, time
threading.stack_size(32768)
def more():
    time.sleep(0.2)
    for _ in range(1000): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
threading.Thread(target=more, daemon=True).start()
"""


def test_a_session_stands_still_between_its_cells(pool: Pool) -> None:
    ticking = (
        "import threading, time\nn = 0\ndef tick():\n  global n\n  while True:\n"
        "    n += 1; time.sleep(0.01)\nthreading.Thread(target=tick, daemon=True).start()"
    )
    with pool.session() as session:
        assert session.run(ticking).ok
        first = int(session.run("n").text())
        time.sleep(2)
        # Of 200.
        assert int(session.run("n").text()) - first < 50
        # It goes on where a cell gives it time.
        assert session.run("m = n\nwhile n < m + 5: time.sleep(0.01)").ok


def test_threads_of_a_session_are_counted_at_the_end_of_each_cell(pool: Pool) -> None:
    with pool.session(Limits(threads=64)) as session:
        assert session.run(SLEEPERS).ok
        time.sleep(0.4)
        result = session.run("time.sleep(0.3)")
        assert result.status == "killed"
        assert result.text().startswith("[killed: more than 64 threads; the variables")
        quick = SLEEPERS.replace("threading.Thread(target=more, daemon=True).start()", "more()")
        assert "more than 64 threads" in session.run(quick.replace("0.2", "0")).text()


def test_processor_time_of_a_cell_is_that_of_all_its_threads(pool: Pool) -> None:
    burning = (
        "import signal, threading\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
        "def f():\n  while True: pass\nthreading.Thread(target=f).start()\nf()"
    )
    with pool.session(Limits(cpu_s=1, wall_s=30)) as session:
        result = session.run(burning)
        assert result.status == "timeout"
        assert "timed out after 1s of processor time; the variables" in result.text()
        assert result.wall_s < 15


def test_a_session_whose_jail_was_lost_between_two_cells(pool: Pool) -> None:
    """The code of the next one never ran, so this is the sandbox's failure."""
    with Pool(1, tier=pool.tier, limits=LIMITS) as made, made.session() as session:
        assert session.run("x = 1").ok
        [pid] = made.pids()
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
        result = session.run("x")
        assert result.status == "infrastructure"
        assert "the variables of the session are gone" in result.text()
        assert session.run("2").text() == "2"


def test_a_session_that_waits_for_a_place_can_be_closed(pool: Pool) -> None:
    async def main(made: Pool) -> tuple[str, str]:
        first, second = made.session(), made.session()
        await first.arun("1")
        waiting = asyncio.ensure_future(second.arun("print('never')"))
        await asyncio.sleep(0.1)
        await asyncio.wait_for(second.aclose(), 5)
        told = (await waiting).text()
        await first.aclose()
        return told, (await made.session().arun("2")).text()

    with Pool(1, tier=pool.tier, limits=LIMITS) as made:
        assert asyncio.run(main(made)) == ("[the sandbox failed: the session is closed]", "2")


def test_sessions_beyond_all_threads_come_to_an_end(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from verl_stare.sandbox import pool as module

    monkeypatch.setattr(module, "_MOST_SESSIONS", 3)

    async def trajectory(made: Pool, number: int) -> str:
        session = made.session()
        try:
            await session.arun(f"x = {number}")
            return (await session.arun("x")).text()
        finally:
            await session.aclose()

    async def main(made: Pool) -> list[str]:
        return await asyncio.gather(*(trajectory(made, number) for number in range(8)))

    with Pool(1, tier=pool.tier, limits=LIMITS) as made:
        answers = asyncio.run(asyncio.wait_for(main(made), 60))
    assert answers == [str(number) for number in range(8)]


def test_a_pool_that_is_closed_in_a_call(pool: Pool) -> None:
    said: list[BaseException | str] = []
    made = Pool(1, tier=pool.tier, limits=LIMITS)

    def call() -> None:
        try:
            said.append(made.run("import time\ntime.sleep(99)").text())
        except BaseException as error:
            said.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    while not made.pids():
        time.sleep(0.05)
    time.sleep(0.5)
    made.close()
    thread.join(20)
    [answer] = said
    assert isinstance(answer, RuntimeError)
    assert "the sandbox pool is closed" in str(answer)


def test_a_session_that_lies_about_its_end_is_not_believed_further(pool: Pool) -> None:
    forged = "import os\nfor n in range(3, 9):\n  try: os.write(n, {!r})\n  except OSError: pass"
    for lie in (
        b"nonsense",
        b'{"exit_code": []}',
        b"[" * 9_999,
        b'{"exit_code": 0, "cpu_s": "x"}',
        b'{"exit_code": Infinity, "cpu_s": 0}',
        b'{"cell": "", "exit_code": 0, "cpu_s": 0}',
        b'{"cell": "", "exit_code": 0, "cpu_s": 1' + b"0" * 400 + b"}",
    ):
        with pool.session() as session:
            result = session.run(forged.format(lie) + "\nprint('after')")
            assert result.status == "killed"
            assert "[killed: it tampered with its session" in result.text()
        assert pool.run("2").text() == "2"


def test_a_closed_pool_has_no_process(pool: Pool) -> None:
    before = traces.at_rest()
    with Pool(1, tier=pool.tier, limits=LIMITS) as made:
        made.run("1")
        assert len(traces.now().processes) > len(before.processes)
    assert len(traces.settled(made, before).processes) <= len(before.processes)
    with pytest.raises(RuntimeError, match="closed"):
        made.run("1")


def test_a_forked_process_makes_its_own(pool: Pool) -> None:
    pool.run("1")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            pool.run("1")
        except RuntimeError:
            with Pool(1, tier=pool.tier, limits=LIMITS) as made:
                code = 0 if made.run("1 + 1").text() == "2" else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pool.run("3").text() == "3"


TRAINER = """
import os, signal, sys, threading, time
from verl_stare.sandbox import Limits, Pool
# A shell that runs the tests in its background has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
pool = Pool(2, tier=sys.argv[1], limits=Limits())
for code in ("while True: pass", "import time; time.sleep(99)"):
    # From threads that end before the process does.
    threading.Thread(target=pool.run, args=(code,), daemon=True).start()
while len(pool.pids()) < 2:
    time.sleep(0.05)
time.sleep(0.7)
# A fork, such as a loader of data, that lives longer.
helper = os.fork()
if helper == 0:
    os.close(1)
    time.sleep(30)
    os._exit(0)
print(helper, flush=True)
time.sleep(99)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_outlives_the_trainer(pool: Pool, how: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", TRAINER, pool.tier],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        text=True,
    )
    assert process.stdout is not None
    helper = int(process.stdout.readline())
    started = traces.descendants(process.pid) - {helper}
    assert len(started) >= 4
    process.send_signal(how)
    process.wait(20)
    process.stdout.close()
    deadline = time.monotonic() + 5
    while any(traces.running(pid) for pid in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [pid for pid in started if traces.running(pid)]
    os.kill(helper, signal.SIGKILL)
    assert not left


def test_threads_that_end_leave_the_jails(pool: Pool) -> None:
    """A jail lives as long as the process, not as the thread that built it."""
    with Pool(1, tier=pool.tier, limits=LIMITS) as made:
        thread = threading.Thread(target=made.run, args=("1",))
        thread.start()
        thread.join()
        [pid] = made.pids()
        time.sleep(0.3)
        assert made.run("2").text() == "2"
        assert made.pids() == [pid]


def test_the_default_pool() -> None:
    assert sandbox.run("1 + 1").text() == "2"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if sandbox.run("1 + 2").text() == "3" else 2
            sandbox._default_pool(os.getpid()).close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sandbox.run("2 + 2").text() == "4"
