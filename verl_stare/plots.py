"""Figures of logged metrics. Needs matplotlib (the extra `demo`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from verl_stare.files import replacing
from verl_stare.runlog import BAND, ENTROPY, SCORE

_COLOURS = {"grpo": "#b5482a", "stare": "#1f6f8b"}
_WINDOW = 10


def plot_entropy(arms: Mapping[str, Sequence[dict[str, Any]]], target: float, path: Path) -> None:
    """Entropy of every arm with the target band, mean score below; written atomically as PNG.

    Args:
        arms: name of the arm to its records, as `verl_stare.runlog.read` gives them.
        target: H_tgt, nats.
        path: of the PNG file.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (above, below) = plt.subplots(
        2, 1, sharex=True, figsize=(8, 6), height_ratios=(3, 2), layout="constrained"
    )
    above.axhspan(
        target * (1 - BAND), target * (1 + BAND), color="#1f6f8b", alpha=0.12, label="target ± 25 %"
    )
    above.axhline(target, color="#1f6f8b", linestyle=":", linewidth=1)
    for name, records in arms.items():
        steps = [record["step"] for record in records]
        colour = _COLOURS.get(name)
        for axes, key in ((above, ENTROPY), (below, SCORE)):
            values = [record["data"][key] for record in records]
            axes.plot(steps, values, color=colour, alpha=0.3, linewidth=0.8)
            axes.plot(steps, _smooth(values), color=colour, linewidth=1.8, label=name.upper())
    above.set(ylabel="entropy of the policy (nats)", ylim=(0, None))
    below.set(ylabel="mean score", xlabel="training step", ylim=(0, 1))
    above.legend(frameon=False)
    below.legend(frameon=False, loc="lower right")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120)
    plt.close(figure)


def _smooth(values: Sequence[float]) -> list[float]:
    """Mean over the last 10 steps."""
    return [
        sum(values[max(0, i - _WINDOW + 1) : i + 1]) / min(i + 1, _WINDOW)
        for i in range(len(values))
    ]
