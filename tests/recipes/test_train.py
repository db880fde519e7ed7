"""How the demo starts and watches verl's command, without a run."""

import json
import sys
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

import train


@pytest.mark.parametrize("path", ["/plain", "/a b/c=d,e", "/x'y/[z]{q}", "/$HOME/${x}"])
def test_any_path_is_one_override(path: str) -> None:
    override = OverridesParser.create().parse_override(f"key={train._quoted(path)}")
    assert override.value() == path


def test_finished_steps_are_read_from_verls_tracker(tmp_path: Path) -> None:
    assert train.finished_steps(tmp_path) == 0
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("25")
    assert train.finished_steps(tmp_path) == 25


def test_a_failing_run_shows_its_last_lines_and_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "fails.sh"
    script.write_text("#!/bin/sh\necho all is lost\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    assert train.train("grpo", 1, 1, tmp_path, []) == 3
    error = capfd.readouterr().err
    assert "all is lost" in error
    assert f"ended with exit code 3; whole log: {tmp_path / 'logs' / 'grpo.000.log'}" in error


def test_each_start_has_metrics_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = {"step": 1, "data": {"actor/entropy": 0.3, "critic/score/mean": 0.5}}
    script = tmp_path / "logs.sh"
    script.write_text(f"#!/bin/sh\necho '{json.dumps(record)}' > $VERL_FILE_LOGGER_PATH\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    for _ in range(2):
        assert train.train("stare", 1, 1, tmp_path, []) == 0
    names = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert names == ["stare.000.jsonl", "stare.000.log", "stare.001.jsonl", "stare.001.log"]
