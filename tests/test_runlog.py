"""Reading logs and summing them up, by hand-worked numbers."""

import json
from pathlib import Path

import pytest

from verl_stare import runlog


def record(step: int, entropy: float, score: float = 0.0, seconds: float = 1.0) -> dict:
    data = {runlog.ENTROPY: entropy, runlog.SCORE: score, runlog.SECONDS: seconds}
    return {"step": step, "data": data}


def write(path: Path, *records: dict, tail: str = "") -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in records) + tail)
    return path


def test_a_resumed_run_is_read_as_it_went_on(tmp_path: Path) -> None:
    # Killed while writing step 4, resumed from a checkpoint of step 2.
    first = write(
        tmp_path / "0", *[record(step, 0.1 * step) for step in (1, 2, 3)], tail='{"step": 4, "da'
    )
    second = write(tmp_path / "1", *[record(step, 0.5) for step in (3, 4)])
    records = runlog.read([first, second])
    assert [each["step"] for each in records] == [1, 2, 3, 4]
    assert [each["data"][runlog.ENTROPY] for each in records] == [0.1, 0.2, 0.5, 0.5]


def test_lines_of_validation_alone_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "0", {"step": 0, "data": {"val-core/acc": 0.5}}, record(1, 0.3))
    assert [each["step"] for each in runlog.read([path])] == [1]


@pytest.mark.parametrize(
    ("entropy", "share"),
    [
        # Reached at the third step; of the four from there on, 0.2 and 0.24 lie within 0.15..0.25.
        ([0.4, 0.3, 0.2, 0.26, 0.24, 0.1], 0.5),
        ([0.4, 0.3], None),
        ([0.2], 1.0),
        ([0.1], 0.0),
    ],
)
def test_in_band_fraction(entropy: list[float], share: float | None) -> None:
    assert runlog.in_band_fraction(entropy, 0.2) == share


def test_the_summary_of_eight_steps() -> None:
    entropy = [0.4, 0.3, 0.2, 0.2, 0.2, 0.2, 0.18, 0.22]
    records = [record(i + 1, h, i / 10, seconds=float(i)) for i, h in enumerate(entropy)]
    assert runlog.summarise(records, 0.2) == {
        "steps": 8,
        "initial_entropy": 0.4,
        "final_entropy": pytest.approx(0.2),
        "in_band_fraction": 1.0,
        "initial_score": 0.0,
        "final_score": pytest.approx(0.65),
        "seconds_per_step": 3.5,
    }


def test_the_figure_is_a_png_and_leaves_nothing_else(tmp_path: Path) -> None:
    from verl_stare.plots import plot_entropy

    arms = {name: [record(i, 0.3 / i, 0.5) for i in range(1, 30)] for name in ("grpo", "stare")}
    plot_entropy(arms, 0.2, tmp_path / "entropy.png")
    assert [path.name for path in tmp_path.iterdir()] == ["entropy.png"]
    assert (tmp_path / "entropy.png").read_bytes().startswith(b"\x89PNG")
