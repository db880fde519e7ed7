"""`verl-stare doctor` in processes of its own, and inside Ray's workers."""

import subprocess
import sys

import pytest
from omegaconf import OmegaConf

from tests.support import trainer
from verl_stare.cli import main
from verl_stare.doctor.report import fail, note, ok
from verl_stare.doctor.workers import ask_every_node, judge, runtime_env

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
def test_every_node_of_a_running_cluster_is_looked_into(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from ray.cluster_utils import Cluster

    environment = trainer.environment(VERL_USE_EXTERNAL_MODULES="hide_stare")
    names = ("PYTHONPATH", "VERL_USE_EXTERNAL_MODULES")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1, env_vars={name: environment[name] for name in names})
        address = cluster.address
        assert main(["doctor", "--address", address]) == 1
    finally:
        cluster.shutdown()
    lines = capsys.readouterr().out.splitlines()
    found = lines[lines.index(f"plugin inside Ray's workers ({address})") + 1 : -1]
    amiss, well = sorted(found)
    assert ": the plugin is active; python 3." in well
    assert amiss.startswith("  FAIL  ")
    assert amiss.endswith("): ModuleNotFoundError: No module named 'verl_stare'")


def test_nodes_that_verl_cannot_use_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    node = {"NodeManagerHostname": "a", "NodeManagerAddress": "1", "Alive": True, "Resources": {}}
    gone = {**node, "Alive": False, "Resources": {"CPU": 1.0}}
    monkeypatch.setattr(ray, "nodes", lambda: [node, gone])
    assert list(ask_every_node()) == [
        note("a (1): has no CPU for verl's processes, not checked"),
        fail("no node has a CPU for verl's processes"),
    ]


def test_the_workers_get_the_environment_of_the_configuration() -> None:
    chosen = {"ray_kwargs": {"ray_init": {"runtime_env": {"env_vars": {"MINE": "1"}}}}}
    default = runtime_env(None)["env_vars"]
    assert runtime_env(OmegaConf.create(chosen))["env_vars"] == {**default, "MINE": "1"}


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
