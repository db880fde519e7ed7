"""The sandbox under load: many mixed calls at once, and what a call costs.

    python -m tests.benchmarks.sandbox [--calls 2000] [--concurrency 8] [--tier auto] [--json OUT]

A call's latency as a share of `python -I -c`, and calls a second at 1, 2, 4 and 8 at once. Then
`--calls` calls, a tenth of them hostile, at `--concurrency`: each has to have its own answer, no
process may be left, and memory after the first hundred is compared with that after all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tests.sandbox import traces
from tests.sandbox.cases import ATTACKS, LISTED, Case
from verl_stare.files import replace_text
from verl_stare.sandbox import Limits, Pool

LIMITS = Limits(cpu_s=1, wall_s=2, memory=1 << 30)
HOSTILE = [
    *(LISTED[name] for name in (
        "fork bomb", "subprocess", "endless loop", "endless output", "memory bomb", "many files",
        "host files", "TCP", "killing the parent", "os._exit", "segmentation fault",
    )),
    *(ATTACKS[name] for name in ("limits raised", "a folder that cannot be removed")),
]  # fmt: skip
ROUNDS = 40
CONCURRENCY = (1, 2, 4, 8)


def memory_at_rest() -> int:
    """Bytes of this process and its jails, what they share counted once."""
    traces.at_rest()
    mine = os.getpid()
    found = 0
    for pid in [mine, *traces.descendants(mine)]:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        found += next(int(line.split()[1]) << 10 for line in rollup.splitlines() if "Pss:" in line)
    return found


def mixed(pool: Pool, calls: int, concurrency: int) -> dict[str, Any]:
    draw = random.Random(20_260_619)
    jobs: list[int | Case] = [
        draw.choice(HOSTILE) if number % 10 == 9 else number for number in range(calls)
    ]
    seconds: list[float] = []
    wrong: list[str] = []
    before = traces.at_rest()

    async def ask(job: int | Case, places: asyncio.Semaphore, bar: tqdm) -> None:
        async with places:
            started = time.monotonic()
            if isinstance(job, int):
                code = f"from sympy import Integer\nprint({job})\nInteger({job}) ** 2"
                result = await pool.arun(code)
                if result.stdout != f"{job}\n{job**2}\n":
                    wrong.append(result.text()[-300:])
                seconds.append(time.monotonic() - started)
            else:
                result = await pool.arun(job.code)
                says = any(text in result.text() for text in job.expected(pool.tier))
                if result.status not in job.status.split("|") or not says:
                    wrong.append(result.text()[-300:])
            bar.update()

    async def ask_all(some: list[int | Case], bar: tqdm) -> None:
        places = asyncio.Semaphore(concurrency)
        await asyncio.gather(*(ask(job, places, bar) for job in some))

    started = time.monotonic()
    with tqdm(total=calls, desc="mixed calls", unit="call") as bar:
        asyncio.run(ask_all(jobs[:100], bar))
        first = memory_at_rest()
        asyncio.run(ask_all(jobs[100:], bar))
        last = memory_at_rest()
    elapsed = time.monotonic() - started
    after = traces.settled(pool, before)
    p50, p99 = (statistics.quantiles(seconds, n=100)[n] * 1000 for n in (49, 98))
    figures = {
        "calls": calls,
        "hostile": sum(isinstance(job, Case) for job in jobs),
        "concurrency": concurrency,
        "tier": pool.tier,
        "seconds": round(elapsed, 1),
        "wrong_answers": len(wrong),
        "p50_ms": round(p50, 1),
        "p99_ms": round(p99, 1),
        "mib_after_100_calls": first >> 20,
        "mib_after_all": last >> 20,
        "processes_more": len(after.processes) - len(before.processes),
        "strays": len(traces.strays()),
    }
    for text in wrong[:5]:
        print(f"wrong: {text!r}")
    return figures


def median_ms(run: Callable[[], object], rounds: int) -> float:
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
        # As a model pauses between its calls.
        time.sleep(0.02)
    return statistics.median(seconds) * 1000


def cold(code: str) -> None:
    subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=True)


def latency(pool: Pool) -> dict[str, float]:
    simple, with_sympy = "print(1)", "import sympy\nprint(sympy.sqrt(8))"
    pool.run(simple)
    figures = {
        "python_ms": median_ms(lambda: cold(simple), ROUNDS),
        "sandbox_ms": median_ms(lambda: pool.run(simple), ROUNDS),
        "python_sympy_ms": median_ms(lambda: cold(with_sympy), ROUNDS // 4),
        "sandbox_sympy_ms": median_ms(lambda: pool.run(with_sympy), ROUNDS),
    }
    figures["share"] = figures["sandbox_ms"] / figures["python_ms"]
    figures["share_sympy"] = figures["sandbox_sympy_ms"] / figures["python_sympy_ms"]
    return {name: round(value, 3) for name, value in figures.items()}


def throughput(pool: Pool) -> dict[int, float]:
    async def ask(calls: int, concurrency: int) -> float:
        places = asyncio.Semaphore(concurrency)

        async def one() -> None:
            async with places:
                await pool.arun("print(1)")

        started = time.monotonic()
        await asyncio.gather(*(one() for _ in range(calls)))
        return calls / (time.monotonic() - started)

    asyncio.run(ask(4 * max(CONCURRENCY), max(CONCURRENCY)))
    return {at_once: round(asyncio.run(ask(200, at_once)), 1) for at_once in CONCURRENCY}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=2000, help="mixed calls (%(default)s)")
    parser.add_argument("--concurrency", type=int, default=8, help="at once (%(default)s)")
    parser.add_argument("--tier", default="auto", help="auto, bwrap, landlock (%(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    with Pool(arguments.concurrency, tier=arguments.tier, limits=LIMITS) as pool:
        figures = {
            "latency": latency(pool),
            "calls_per_second": throughput(pool),
            "mixed": mixed(pool, arguments.calls, arguments.concurrency),
        }
    print(json.dumps(figures, indent=2))
    if arguments.json:
        replace_text(arguments.json, json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
