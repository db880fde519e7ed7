"""`verl-stare doctor` in processes of its own, and inside Ray's workers."""

import subprocess
import sys

import pytest

from tests.support import trainer
from verl_stare.cli import main
from verl_stare.doctor.report import fail, note, ok
from verl_stare.doctor.workers import judge

OFF = "VERL_USE_EXTERNAL_PLUGINS=none switches the plugin off: allow stare"


def doctor(*arguments: str, **environment: str) -> list[str]:
    """Lines of the report of a process that finds a failure."""
    done = subprocess.run(
        [sys.executable, "-m", "verl_stare.cli", "doctor", *arguments],
        env=trainer.environment(**environment),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout.splitlines()


def test_a_changed_verl_is_named() -> None:
    broken = {"VERL_USE_EXTERNAL_MODULES": "break_verl", "BREAK": "get_trainer_cls"}
    lines = doctor("--no-ray", **broken)
    assert "  ok    verl 0.9.1 (supported: <0.10,>=0.9.1)" in lines
    assert (
        "  FAIL  verl.trainer.ppo.v1.trainer_base.get_trainer_cls is missing: "
        "put the mixin on every trainer"
    ) in lines


@pytest.mark.trainer
def test_a_plugin_switched_off_is_off_in_the_workers_too() -> None:
    # verl itself knows no platform named cpu.
    lines = doctor(VERL_USE_EXTERNAL_PLUGINS="none", VERL_PLATFORM="")
    here, there = (line for line in lines if line.startswith("  FAIL"))
    assert here == f"  FAIL  {OFF}"
    assert there.endswith(f": {OFF}")
    assert lines[-1] == "2 checks failed"


@pytest.mark.trainer
def test_a_worker_is_looked_into(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    *_, found, summary = capsys.readouterr().out.splitlines()
    assert found.startswith("  ok  ")
    assert ": the plugin is active; python 3." in found
    assert summary == "all well"


@pytest.mark.trainer
def test_a_worker_has_the_environment_that_the_configuration_gives_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VERL_PLATFORM", raising=False)
    variable = "ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_PLUGINS=none"
    assert main(["doctor", "--override", f"+{variable}"]) == 1
    [failure] = [x for x in capsys.readouterr().out.splitlines() if x.startswith("  FAIL")]
    assert failure.endswith(f"): {OFF}")


def test_other_versions_in_a_worker() -> None:
    here = {"verl": "0.9.1", "verl_stare": "0.1.0", "torch": "2.9.0+cpu", "vllm": None}
    assert list(judge("node", here, here, [ok("all"), note("something")])) == [
        ok("node: the plugin is active; verl 0.9.1, verl_stare 0.1.0, torch 2.9.0+cpu")
    ]
    there = {**here, "verl_stare": "0.0.9", "torch": "2.9.0"}
    lines = list(judge("node", here, there, []))
    assert lines[0] == fail("node: verl_stare 0.0.9, here 0.1.0")
    assert lines[1] == note("node: torch 2.9.0, here 2.9.0+cpu")
    assert list(judge("node", here, here, [fail("off")])) == [fail("node: off")]
