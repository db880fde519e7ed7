"""Cost of the driver's decision and weights, in one process.

    python -m tests.benchmarks.driver [--json OUT] [--sequences 512] [--longest 8192 32768]

For each size, on one thread: one elementwise pass over the advantages (a new tensor), STARE's
decide-and-reweight, the same with its metrics, a padded selection of the whole batch and of
micro-batches of 4, verl's GRPO advantage; then, through verl's TransferQueue, what STARE adds to
verl's `_compute_advantage` on the same batch, fetching and storing included. Each is measured twice
where memory matters: finding the memory of the call before, and with memory fresh from the system.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from tests.benchmarks import batches, clock, references
from verl_stare.algo import ControllerState, decide, weighted_advantages
from verl_stare.config import StareConfig
from verl_stare.files import replace_text
from verl_stare.metrics import compute_metrics

CONFIG = StareConfig(target_entropy=100.0)
BOTH = StareConfig(target_entropy=100.0, variant="C2")
GROUP = 8


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--sequences", type=int, default=512)
    parser.add_argument("--longest", type=int, nargs="+", default=[8192, 32768])
    parser.add_argument("--rounds", type=int, default=7, help="timed calls of each")
    options = parser.parse_args(argv)
    # Before verl is loaded; a process that only imports this module is left alone.
    os.environ.setdefault("VERL_PLATFORM", "cpu")
    torch.set_num_threads(1)

    from tests.benchmarks import trainer

    sizes = []
    with trainer.queue():
        for longest in tqdm(options.longest, desc="sizes", unit="size"):
            batch = batches.make(options.sequences, longest)
            figures = arithmetic(batch, options.rounds)
            figures["longest"] = longest
            figures["trainer"] = trainer.addition(batch, GROUP, options.rounds)
            sizes.append(figures)
    for figures in sizes:
        print(table(figures))
    if options.json:
        replace_text(options.json, json.dumps(sizes, indent=2) + "\n")
        print(f"written to {options.json}")
    return 0


def arithmetic(batch: batches.Batch, rounds: int) -> dict[str, Any]:
    """Seconds of everything but the trainer, and STARE's peak memory."""

    def reweight(config: StareConfig) -> Any:
        state = ControllerState.initial(config)
        decision, _ = decide(config, state, **batch.flat, entropy=batch.entropy)
        return decision, weighted_advantages(decision, **batch.flat)

    decision, weighted = reweight(CONFIG)
    selected = int((weighted / batch.advantages > 1.05).sum())
    expected = int(np.ceil(CONFIG.top_fraction * int((batch.advantages > 0).sum())))

    padded = {name: batch.padded(values) for name, values in batch.flat.items()}
    rewards = torch.zeros_like(padded["advantages"])
    rewards[:, 0] = torch.rand(len(rewards))
    settings = {"top_fraction": CONFIG.top_fraction, "amplify": CONFIG.amplify}
    three = tuple(padded.values())
    functions = {
        "pass": lambda: batch.advantages * 1.1,
        "reweight, O1": partial(reweight, CONFIG),
        "reweight, C2": partial(reweight, BOTH),
        "metrics": lambda: compute_metrics(decision, **batch.flat, entropy=batch.entropy),
        "prototype with kthvalue": lambda: references.jagged_prototype(
            **batch.flat, entropy=batch.entropy, **settings
        ),
        "padded pass": lambda: padded["advantages"] * 1.1,
        "padded selection": lambda: references.padded_selection(*three, **settings),
        "padded micro-batches of 4": lambda: references.padded_micro_batches(4, *three, **settings),
        "verl's GRPO advantage": lambda: references.verl_grpo(
            rewards, padded["response_mask"].long(), GROUP
        ),
    }
    return {
        "sequences": len(batch.lengths),
        "tokens": batch.surprisal.numel(),
        "selected": selected,
        "expected": expected,
        # All arrays are NumPy's, which tracemalloc sees.
        "peak_arrays": max(_peak(partial(reweight, config)) for config in (CONFIG, BOTH))
        / (batch.advantages.numel() * batch.advantages.element_size()),
        "reused_memory": clock.interleaved(functions, rounds, fresh_memory=False),
        "fresh_memory": clock.interleaved(functions, rounds, fresh_memory=True),
        "recovered_by_micro_batches": {
            str(rows): references.recovered(
                batch.surprisal, batch.advantages, batch.lengths, rows, CONFIG.top_fraction
            )
            for rows in (1, 4, 16, 64)
        },
    }


def _peak(function: Callable[[], Any]) -> int:
    """Bytes that `function` holds at most beyond what was there, its result included."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def table(figures: dict[str, Any]) -> str:
    """The figures of one size for people."""
    lines = [
        f"\n{figures['sequences']} sequences of up to {figures['longest']:,} tokens: "
        f"{figures['tokens']:,} tokens; selected {figures['selected']:,} "
        f"(expected {figures['expected']:,}); peak extra memory of O1 and C2 "
        f"{figures['peak_arrays']:.2f} arrays of the tokens",
        f"{'':28}{'memory reused':>24}{'memory fresh':>24}",
        f"{'':28}{'ms':>12}{'passes':>12}{'ms':>12}{'passes':>12}",
    ]
    for name in figures["reused_memory"]:
        line = f"{name:28}"
        for way in ("reused_memory", "fresh_memory"):
            seconds = figures[way]
            line += f"{1e3 * seconds[name]:12.2f}{seconds[name] / seconds['pass']:12.1f}"
        lines.append(line)
    trainer = figures["trainer"]
    lines.append(
        f"verl's _compute_advantage {1e3 * trainer['verl']:.0f} ms, with STARE "
        f"{1e3 * trainer['stare']:.0f} ms: {trainer['added'] / trainer['verl']:.3f} of verl's own "
        f"added, {100 * trainer['added'] / 10:.2f} % of a step of 10 s, "
        f"{100 * trainer['added'] / 100:.3f} % of one of 100 s"
    )
    shares = figures["recovered_by_micro_batches"]
    lines.append(
        "share of the batch-wide set that micro-batches recover: "
        + ", ".join(f"{rows} rows {100 * share:.1f} %" for rows, share in shares.items())
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
