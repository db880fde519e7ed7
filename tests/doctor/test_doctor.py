"""`verl-stare doctor` as a whole, inside this process and without Ray."""

import logging
import sys
from pathlib import Path

import pytest

from verl_stare.bridge import request
from verl_stare.cli import main

ON = "algorithm.adv_estimator=stare"


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """Exit code and lines."""
    code = main(["doctor", "--no-ray", *arguments])
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "Traceback" not in shown.out
    return code, shown.out.splitlines()


def failures(lines: list[str]) -> list[str]:
    return [line.removeprefix("  FAIL  ") for line in lines if line.startswith("  FAIL  ")]


def test_all_well(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = doctor(capsys)
    assert code == 0
    assert [line for line in lines if not line.startswith(" ")] == [
        "versions",
        "seams in verl",
        "plugin in this process",
        "plugin inside Ray's workers",
        "all well",
    ]
    assert "  ok    verl 0.9.1 (supported: <0.10,>=0.9.1)" in lines
    assert "  note  not checked (--no-ray)" in lines
    assert logging.root.manager.disable == logging.NOTSET


def test_without_verl_the_rest_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "verl", None)
    code, lines = doctor(capsys, ON)
    assert code == 1
    [failure] = failures(lines)
    assert failure.startswith("ModuleNotFoundError: import of verl")
    assert "seams in verl" not in lines
    assert lines[-1] == "1 check failed"


def test_a_configuration_that_switches_it_on(capsys: pytest.CaptureFixture[str]) -> None:
    overrides = ["+algorithm.stare.target_entropy=0.2", "+algorithm.stare.base_estimator=gae"]
    code, lines = doctor(capsys, "--expect-on", "--override", ON, *overrides)
    assert code == 0
    start = lines.index(f"configuration ppo_trainer {ON} {' '.join(overrides)}") + 1
    on, target, base, critic = lines[start : start + 4]
    assert on.startswith("  ok    STARE would be on: algorithm.adv_estimator=stare over gae; ")
    assert target == "  ok    algorithm.stare.target_entropy=0.2 (default: 0.3)"
    assert base == "  ok    algorithm.stare.base_estimator=gae (default: grpo)"
    assert critic == "  note  a critic would be trained"


def test_a_configuration_that_leaves_it_off(capsys: pytest.CaptureFixture[str]) -> None:
    overrides = ["algorithm.adv_estimator=grpo", "+algorithm.stare.amplify=2"]
    off = f"neither algorithm.adv_estimator (grpo) nor {request.LOSS_MODE} is stare"
    code, lines = doctor(capsys, *overrides)
    assert code == 0
    assert f"  note  STARE would be off: {off}" in lines
    assert "  note  what is set under algorithm.stare has no effect" in lines
    assert "  note  a critic would not be trained" in lines
    code, lines = doctor(capsys, "--expect-on", *overrides)
    assert code == 1
    assert failures(lines) == [f"STARE would be off: {off}"]


def test_a_bad_setting_is_the_trainers_own_message(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = doctor(capsys, ON, "+algorithm.stare.amplify=0.5")
    assert code == 1
    assert failures(lines) == ["algorithm.stare.amplify=0.5: must be a finite number >= 1"]
    assert lines[-1] == "1 check failed"


def test_what_hydra_refuses_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = doctor(capsys, "algorithm.stare.amplify=2")
    assert code == 1
    [failure] = failures(lines)
    assert failure.startswith("ConfigCompositionException: Could not override")


def test_presets_are_found_on_the_search_path(capsys: pytest.CaptureFixture[str]) -> None:
    presets = "hydra.searchpath=[pkg://verl_stare.presets]"
    code, lines = doctor(capsys, presets, ON, "+cpu=tinny")
    assert code == 1
    assert "Could not find 'cpu/tinny' Available options in 'cpu': tiny" in failures(lines)[0]
    code, _ = doctor(capsys, presets, ON, "+cpu=tiny")
    assert code == 0


def test_a_configuration_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_text(
        "hydra:\n  searchpath: [pkg://verl.trainer.config]\n"
        "defaults: [ppo_trainer, _self_]\n"
        "actor_rollout_ref: {actor: {policy_loss: {loss_mode: stare}}}\n"
    )
    place = ["--config-path", str(tmp_path), "--config-name", "mine"]
    code, lines = doctor(capsys, *place, "algorithm.adv_estimator=rloo")
    assert code == 0
    assert any("STARE would be on: loss_mode=stare; " in line for line in lines)
