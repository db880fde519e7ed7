"""The built wheel holds the package and its data, and its plugin is found without the checkout."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.support.trainer import ROOT

pytestmark = pytest.mark.install

CHECK = """
import verl_stare, verl
from verl.trainer.ppo.v1 import get_trainer_cls
print(verl_stare.__file__)
print(get_trainer_cls("sync").__name__)
"""


def test_a_wheel_in_an_environment_of_its_own(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
    )
    [wheel] = tmp_path.glob("verl_stare-*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run(
        [str(python), "-m", "pip", "install", "--no-deps", "--quiet", str(wheel)], check=True
    )
    # The dependencies (but not this checkout, whose .pth file is not read from there) are lent;
    # .ci/run installs them all afresh.
    site = next((tmp_path / "venv" / "lib").glob("python3*")) / "site-packages"
    (site / "lent.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(python), "-c", CHECK],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    place, trainer = done.stdout.split()[-2:]
    assert Path(place).is_relative_to(site)
    assert trainer == "StarePPOTrainerSync"
    doctor = [str(tmp_path / "venv" / "bin" / "verl-stare"), "doctor", "--no-ray"]
    subprocess.run(doctor, cwd=tmp_path, env=environment, check=True)
    composed = subprocess.run(
        [
            str(python),
            *("-m", "verl.trainer.main_ppo", "--cfg", "job"),
            *("hydra.searchpath=[pkg://verl_stare.presets]", "+cpu=tiny"),
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "agent_loop_manager_class: verl_stare.cpu.agent_loop" in composed.stdout
