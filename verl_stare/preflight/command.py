"""`verl-stare preflight`: run the checks, print what the run would be, and what is wrong."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import warnings

DESCRIPTION = """\
Checks a training command before any worker starts: composes the configuration as
verl does, validates it as verl does, and looks at what verl would only find out on its workers:
files and their columns, ranks and batch sizes, lengths and the model's positions, the Ray cluster,
and an estimate of GPU memory.
"""

EXAMPLES = """\
examples:
  verl-stare preflight +stare=math_7b actor_rollout_ref.model.path=MODEL data.train_files=FILE ...
  verl-stare preflight --dry-run ...                # the GPUs are elsewhere
  verl-stare preflight --kind sft --ranks 8 +stare_sft=retool_7b ...

environment:
  RAY_ADDRESS      of the cluster that is trained on
  GPU_MEMORY_GIB   of a GPU (default: this machine's, or else 80)

exit codes:
  0   nothing is wrong
  1   something is: a line each, beginning with "error:"
  2   wrong usage
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the subcommand."""
    parser.add_argument(
        "--kind",
        choices=("rl", "sft"),
        default="rl",
        help="of verl's: rl is verl.trainer.main_ppo (default), sft verl.trainer.sft_trainer",
    )
    parser.add_argument("--ranks", type=int, default=1, help="of supervised training (default 1)")
    parser.add_argument(
        "--dry-run", action="store_true", help="do not ask for the GPUs, which are elsewhere"
    )
    parser.add_argument(
        "overrides", metavar="KEY=VALUE", nargs="*", help="Hydra overrides of the training command"
    )


def run(arguments: argparse.Namespace) -> int:
    """Check, print, and return the exit code."""
    from verl_stare.preflight import checks

    given = os.environ.get("GPU_MEMORY_GIB")
    try:
        memory = float(given) * 2**30 if given else None
    except ValueError:
        print(f"error: GPU_MEMORY_GIB={given}: must be a number", file=sys.stderr)
        return 2
    # Of verl's engines that are not installed, and the like: the run says so itself.
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    found = checks.run(
        arguments.overrides,
        checks.Options(
            kind=arguments.kind,
            dry_run=arguments.dry_run,
            ray_address=os.environ.get("RAY_ADDRESS", ""),
            gpu_memory=memory,
            ranks=arguments.ranks,
        ),
    )
    for label, text in found.facts:
        print(f"{label + ':':<15} {text}")
    for text in found.warnings:
        print(f"warning: {text}")
    for text in found.problems:
        print(f"error: {text}", file=sys.stderr)
    return 1 if found.problems else 0
