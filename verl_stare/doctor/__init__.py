"""`verl-stare doctor`: whether STARE can act here and on Ray's workers, said line by line."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial

from verl_stare.doctor import process, versions, workers
from verl_stare.doctor.configuration import Configuration
from verl_stare.doctor.report import Report, quiet


@dataclass(frozen=True)
class Options:
    """What to look at.

    Attributes:
        with_ray: also look into Ray's workers.
        address: of a running Ray cluster; None starts one here for the time of the check.
        config: of a training command; None if there is none to look at.
    """

    with_ray: bool = True
    address: str | None = None
    config: Configuration | None = None


def run(options: Options) -> int:
    """Print what was found, and return the exit code: 0 if all is well, 1 if a check failed."""
    report = Report()
    config = options.config
    with quiet():
        report.section("versions", versions.check)
        # All that follows looks into verl.
        if sys.modules.get("verl") is not None:
            report.section("seams in verl", process.seams_found)
            report.section("plugin in this process", process.plugin_active)
            if config is not None:
                report.section(f"configuration {config}", config.check)
            if options.with_ray:
                where = options.address or "started here"
                composed = None if config is None else config.composed
                check = partial(workers.check, options.address, composed)
                report.section(f"plugin inside Ray's workers ({where})", check)
            else:
                report.section("plugin inside Ray's workers", workers.left_out)
    return report.close()
