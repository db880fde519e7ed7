r"""The grader beside math-verify and verl's scorers: speed and errors on the same responses.

    STARE_REAL_DATA=DIR python -m tests.benchmarks.grader [--pairs 10000] [--json OUT]

Each pair is a response and a ground truth of the real evaluation sets. The response is the set's
own solution, its boxes opened, with an answer at its end in the form that the scorer asks for:
right ones in one of the ways of tests/support/renderings.py, wrong ones the ground truth of another
problem of the same set. Right and wrong are known by construction, whatever any scorer says.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tqdm import tqdm

from tests.support.real_golds import VARIABLE, Problem, problems
from tests.support.renderings import renderings
from verl_stare.files import replace_text
from verl_stare.rewards import compute_score
from verl_stare.rewards.boxes import last_boxed

Pair = tuple[str, str, bool]
_SOLUTION = 1_000


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(argv)
    sets = problems()
    if not sets:
        parser.error(f"{VARIABLE} names no folder of real rows")
    start = time.perf_counter()
    compute_score("x", r"\boxed{\sqrt{8}}", r"2\sqrt{2}", time_limit=10.0)
    first_call = time.perf_counter() - start
    pairs = make_pairs(sets, options.pairs, options.seed)
    figures = {
        "pairs": len(pairs),
        "right": sum(right for *_, right in pairs),
        "first_call_seconds": round(first_call, 2),
        "scorers": {name: measure(name, scorer, pairs) for name, scorer in SCORERS.items()},
    }
    print(table(figures))
    if options.json:
        replace_text(options.json, json.dumps(figures, indent=2) + "\n")
    return 0


def make_pairs(sets: dict[str, list[Problem]], number: int, seed: int) -> list[Pair]:
    """Response, ground truth and whether it is right; half of each."""
    draw = random.Random(seed)
    everything = [problem for listed in sets.values() for problem in listed]
    pairs: list[Pair] = []
    while len(pairs) < number:
        problem = draw.choice(everything)
        right = draw.random() < 0.5
        if right:
            _, answer = draw.choice(list(renderings(problem.gold)))
        else:
            other = draw.choice(sets[problem.data_source]).gold
            if other == problem.gold:
                continue
            answer = rf"\boxed{{{other}}}"
        opened = re.sub(r"\\boxed", "", problem.solution)[-_SOLUTION:]
        pairs.append((f"{opened}\n\n{answer}", problem.gold, right))
    return pairs


def _ours(response: str, gold: str) -> bool:
    return bool(compute_score("x", response, gold)["acc"])


def _math_verify(response: str, gold: str) -> bool:
    from math_verify import parse, verify

    return bool(verify(parse(rf"\boxed{{{gold}}}"), parse(response)))


def _math_reward(response: str, gold: str) -> bool:
    from verl.utils.reward_score import math_reward

    return bool(math_reward.compute_score(response, gold))


def _math_dapo(response: str, gold: str) -> bool:
    from verl.utils.reward_score import math_dapo

    # The form that this scorer asks for.
    box = last_boxed(response)
    if box is not None:
        response = f"{response}\nAnswer: {box}"
    return bool(math_dapo.compute_score(response, gold)["acc"])


def _gsm8k(response: str, gold: str) -> bool:
    from verl.utils.reward_score import gsm8k

    box = last_boxed(response)
    if box is not None:
        response = f"{response}\n#### {box}"
    return bool(gsm8k.compute_score(response, gold))


SCORERS: dict[str, Callable[[str, str], bool]] = {
    "verl_stare": _ours,
    "math-verify": _math_verify,
    "math_reward (verl)": _math_reward,
    "math_dapo (verl)": _math_dapo,
    "gsm8k (verl)": _gsm8k,
}


def measure(name: str, scorer: Callable[[str, str], bool], pairs: list[Pair]) -> dict[str, float]:
    """Seconds and errors of one scorer over all pairs."""
    scorer(pairs[0][0], pairs[0][1])  # imports
    rejected = accepted = failed = 0
    start = time.perf_counter()
    for response, gold, right in tqdm(pairs, desc=name, unit="response", file=sys.stderr):
        try:
            verdict = scorer(response, gold)
        # A scorer that fails on a response fails the step; here it is counted.
        except Exception:
            failed += 1
            verdict = False
        rejected += right and not verdict
        accepted += verdict and not right
    seconds = time.perf_counter() - start
    return {
        "seconds": round(seconds, 2),
        "per_second": round(len(pairs) / seconds, 1),
        "right_rejected": rejected,
        "wrong_accepted": accepted,
        "failed": failed,
    }


def table(figures: dict) -> str:
    """The figures as Markdown."""
    scorers = figures["scorers"]
    base = scorers["math-verify"]["per_second"]
    lines = [
        f"{figures['pairs']} responses, {figures['right']} right; first call after start "
        f"{figures['first_call_seconds']} s; {os.cpu_count()} cores",
        "",
        "| scorer | responses/s | times math-verify | right, rejected | wrong, accepted | failed |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in scorers.items():
        lines.append(
            f"| {name} | {row['per_second']:,.0f} | {row['per_second'] / base:.1f} "
            f"| {row['right_rejected']} | {row['wrong_accepted']} | {row['failed']} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
