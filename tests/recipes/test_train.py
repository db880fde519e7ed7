"""How the demo starts and watches verl's command, without a run."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from tqdm import tqdm

import train


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / ".lock", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("path", ["/plain", "/a b/c=d,e", "/x'y/[z]{q}", "/$HOME/${x}"])
def test_any_path_is_one_override(path: str) -> None:
    override = OverridesParser.create().parse_override(f"key={train._quoted(path)}")
    assert override.value() == path


def test_finished_steps_are_read_from_verls_tracker(tmp_path: Path) -> None:
    assert train.finished_steps(tmp_path) == 0
    tracker = tmp_path / "latest_checkpointed_iteration.txt"
    tracker.write_text("25")
    assert train.finished_steps(tmp_path) == 25
    # Left by a kill; verl could not read it either.
    tracker.write_text("")
    assert train.finished_steps(tmp_path) == 0
    assert not tracker.exists()


def test_a_failing_run_shows_its_last_lines_and_code(
    tmp_path: Path,
    lock: int,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    script = tmp_path / "fails.sh"
    script.write_text("#!/bin/sh\necho all is lost\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    assert train.train("grpo", 1, 1, tmp_path, [], lock) == 3
    error = capfd.readouterr().err
    assert "all is lost" in error
    assert f"ended with exit code 3; whole log: {tmp_path / 'logs' / 'grpo.000.log'}" in error


@pytest.mark.parametrize("entropy", [0.25, None])
def test_progress_survives_an_entropy_that_is_not_finite(entropy: float | None) -> None:
    with tqdm(total=2, disable=True) as bar:
        data = {"actor/entropy": entropy, "critic/score/mean": 0.5}
        train._show(bar, {"step": 1, "data": data})


def test_each_start_has_metrics_of_its_own(
    tmp_path: Path, lock: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {"step": 1, "data": {"actor/entropy": 0.3, "critic/score/mean": 0.5}}
    script = tmp_path / "logs.sh"
    script.write_text(f"#!/bin/sh\necho '{json.dumps(record)}' > $VERL_FILE_LOGGER_PATH\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    for _ in range(2):
        assert train.train("stare", 1, 1, tmp_path, [], lock) == 0
    names = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert json.loads((tmp_path / "logs" / "stare.000.jsonl").read_text()) == record
    assert names == ["stare.000.jsonl", "stare.000.log", "stare.001.jsonl", "stare.001.log"]
