"""The demo's results: entropy.png, one JSON-lines log an arm, summary.json, and a table."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from verl_stare import runlog
from verl_stare.files import replace_text
from verl_stare.plots import plot_entropy

HERE = Path(__file__).resolve().parent
_PACKAGES = ("verl-stare", "verl", "torch", "transformers", "ray", "reasoning-gym")
_COLUMNS = {
    "steps": "{:d}",
    "initial_entropy": "{:.3f}",
    "final_entropy": "{:.3f}",
    "in_band_fraction": "{:.0%}",
    "initial_score": "{:.2f}",
    "final_score": "{:.2f}",
    "seconds_per_step": "{:.2f}",
}


def write(out: Path, steps: int) -> str:
    """Write the results of every arm that has logs, up to step `steps`.

    Returns:
        The table to print, with the places of the files.
    """
    target = _target(out)
    arms: dict[str, list[dict[str, Any]]] = {}
    for arm in ("grpo", "stare"):
        records = runlog.read(sorted((out / "logs").glob(f"{arm}.*.jsonl")))
        records = [record for record in records if record["step"] <= steps]
        if records:
            arms[arm] = records
            lines = [json.dumps(record) for record in records]
            replace_text(out / f"{arm}.jsonl", "\n".join(lines) + "\n")
    summary = {
        "target_entropy": target,
        "arms": {arm: runlog.summarise(records, target) for arm, records in arms.items()},
        "versions": {"python": platform.python_version()}
        | {package: version(package) for package in _PACKAGES},
    }
    plot_entropy(arms, target, out / "entropy.png")
    replace_text(out / "summary.json", json.dumps(summary, indent=2) + "\n")
    files = ", ".join(["entropy.png", "summary.json", *[f"{arm}.jsonl" for arm in arms]])
    return f"\nTarget entropy {target:g} nats\n{table(summary)}\n\nIn {out}: {files}"


def table(summary: dict[str, Any]) -> str:
    """The arms of `summary` side by side, in plain text."""
    rows = [["", *summary["arms"]]]
    for key, form in _COLUMNS.items():
        values = [arm[key] for arm in summary["arms"].values()]
        rows.append([key, *["-" if value is None else form.format(value) for value in values]])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _target(out: Path) -> float:
    """What the arms ran with; both have the setting, whoever uses it."""
    ran = sorted(out.glob("hydra/*/.hydra/config.yaml"))
    config = OmegaConf.load(ran[-1] if ran else HERE / "config/stare/demo.yaml")
    return float(OmegaConf.select(config, "algorithm.stare.target_entropy"))
