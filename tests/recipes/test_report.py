"""The demo's report from logs, without a run."""

import json
from pathlib import Path

import report
from verl_stare import runlog


def log(folder: Path, arm: str, entropies: list[float]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [
        json.dumps(
            {
                "step": step,
                "data": {runlog.ENTROPY: h, runlog.SCORE: 0.5, runlog.SECONDS: 2.0},
            }
        )
        for step, h in enumerate(entropies, start=1)
    ]
    (folder / f"{arm}.000.jsonl").write_text("\n".join(lines) + "\n")


def test_one_arm_alone_is_reported_with_the_presets_target(tmp_path: Path) -> None:
    log(tmp_path / "logs", "grpo", [0.4, 0.3, 0.2, 0.1, 0.05])
    text = report.write(tmp_path, steps=4)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert list(summary["arms"]) == ["grpo"]
    assert summary["arms"]["grpo"]["steps"] == 4
    assert summary["arms"]["grpo"]["final_entropy"] == 0.1
    assert f"Target entropy {summary['target_entropy']:g} nats" in text
    assert summary["versions"]["verl"].startswith("0.9.")


def test_the_target_is_the_one_that_the_run_had(tmp_path: Path) -> None:
    log(tmp_path / "logs", "stare", [0.4, 0.3])
    config = tmp_path / "hydra" / "stare" / ".hydra" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("algorithm: {stare: {target_entropy: 0.35}}\n")
    assert "Target entropy 0.35 nats" in report.write(tmp_path, steps=2)
