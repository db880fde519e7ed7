"""The demo, end to end and interrupted: it goes on where it was, and leaves what it promises."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.trainer import ROLLOUT, ROOT, forked_workers

pytestmark = pytest.mark.trainer


def demo(out: Path, *overrides: str, **settings: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", str(ROOT / "recipes" / "run_stare_demo.sh"), *overrides],
        env={**os.environ, "OUT": str(out), **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output[-4000:]
    return output


def made(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_killed_and_started_again_it_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    # Four steps with a checkpoint every two; the kill comes after the first checkpoint.
    settings = {"STEPS": "4", "SEED": "5"}
    overrides = ["trainer.save_freq=2", *(forked_workers() if ROLLOUT == "hf" else [])]
    first = demo(out, *overrides, **settings)
    tracker = out / "checkpoints" / "grpo" / "latest_checkpointed_iteration.txt"
    try:
        deadline = time.monotonic() + 900
        while not tracker.exists():
            assert first.poll() is None, first.communicate()[0][-4000:]
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        first.send_signal(signal.SIGKILL)
        first.communicate()
    before = made(out / "data"), made(out / "model")
    [log] = (out / "logs").glob("grpo.*.jsonl")
    killed_at = len(log.read_text().splitlines())

    # The killed start's trainer ends by itself; until then the folder is taken.
    deadline = time.monotonic() + 60
    while True:
        second = demo(out, *overrides, **settings)
        output, _ = second.communicate(timeout=600)
        if second.returncode != 2:
            break
        assert "another run is using" in output
        assert time.monotonic() < deadline
        time.sleep(1)
    assert second.returncode == 0, output[-4000:]
    assert (made(out / "data"), made(out / "model")) == before

    # The start of the demo: mixed rewards, and entropy to lose.
    warm_start = json.loads((out / "model" / "warm_start.json").read_text())
    assert 0.2 <= warm_start["accuracy"] <= 0.6
    assert warm_start["entropy"] >= 0.25

    summary = json.loads((out / "summary.json").read_text())
    assert set(summary) == {"target_entropy", "arms", "versions"}
    assert set(summary["arms"]) == {"grpo", "stare"}
    for arm, figures in summary["arms"].items():
        assert set(figures) == {
            "steps",
            "initial_entropy",
            "final_entropy",
            "in_band_fraction",
            "initial_score",
            "final_score",
            "seconds_per_step",
        }
        assert figures["steps"] == 4
        assert 0 < figures["initial_entropy"] < 1
        log = [json.loads(line) for line in (out / f"{arm}.jsonl").read_text().splitlines()]
        assert [record["step"] for record in log] == [1, 2, 3, 4]
        assert ("stare/gate_open" in log[0]["data"]) == (arm == "stare")
        assert arm in output
    # The resumed arm has two logs, and the second begins after the checkpoint.
    resumed = json.loads((out / "logs" / "grpo.001.jsonl").read_text().splitlines()[0])
    assert killed_at < 4
    assert resumed["step"] == 3
    assert not (out / "logs" / "stare.001.jsonl").exists()
    # The target is below the first entropies, so both arms are still the same algorithm: the arm
    # that was killed and resumed went exactly where the other went. (With vLLM, the rounding of a
    # batch depends on which requests happen to share it.)
    entropies = [
        [json.loads(line)["data"]["actor/entropy"] for line in path.read_text().splitlines()]
        for path in (out / "grpo.jsonl", out / "stare.jsonl")
    ]
    assert min(entropies[0]) > summary["target_entropy"]
    assert entropies[0] == (entropies[1] if ROLLOUT == "hf" else pytest.approx(entropies[1], 0.5))
    assert (out / "entropy.png").read_bytes().startswith(b"\x89PNG")
    assert str(out) in output and "final_entropy" in output

    # Started once more it only reports, and fewer steps and arms are no reason to train.
    again = finish(demo(out, *overrides, STEPS="3", SEED="5", ARMS="stare"))
    assert "step 3 is done already" in again
    summary = json.loads((out / "summary.json").read_text())
    assert [arm["steps"] for arm in summary["arms"].values()] == [3, 3]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ARMS": "grpo stair"}, "ARMS='grpo stair': allowed are grpo, stare"),
        ({"ARMS": " "}, "ARMS=' ': allowed are grpo, stare"),
        ({"STEPS": "0"}, "STEPS='0': must be a whole number >= 1"),
        ({"SEED": "x"}, "SEED='x': must be a whole number >= 1"),
    ],
)
def test_bad_settings_are_one_line(tmp_path: Path, settings: dict[str, str], message: str) -> None:
    process = demo(tmp_path / "out", **settings)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert output == f"demo: {message}\n"
    assert not (tmp_path / "out" / "data").exists()


def test_a_folder_of_another_seed_is_left_alone(tmp_path: Path) -> None:
    before = {"seed": 7, "overrides": [], "rollout": ROLLOUT}
    (tmp_path / "settings.json").write_text(json.dumps(before))
    process = demo(tmp_path, SEED="8")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert f"holds a run with {before}, not" in output


def test_a_folder_of_another_rollout_is_left_alone(tmp_path: Path) -> None:
    before = {"seed": 7, "overrides": [], "rollout": {"hf": "vllm", "vllm": "hf"}[ROLLOUT]}
    (tmp_path / "settings.json").write_text(json.dumps(before))
    process = demo(tmp_path, SEED="7")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert f"holds a run with {before}, not" in output


def test_an_unknown_rollout_is_one_line(tmp_path: Path) -> None:
    process = demo(tmp_path / "out", ROLLOUT="vlm")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert output == "ROLLOUT=vlm: allowed are hf, vllm\n"
