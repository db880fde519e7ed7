"""Reinforcement learning with the Python tool: verl's trainer, its agent loop, the sandbox."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from transformers import AutoTokenizer

import tool_policy
from tests.sandbox import traces
from tests.support import trainer
from tests.support.trainer import ROOT, Assets, hf_only
from verl_stare.sandbox import SandboxUnavailable, choose

pytestmark = [pytest.mark.trainer, hf_only]
STEPS = 10
MULTI_TURN = "actor_rollout_ref.rollout.multi_turn"


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Assets:
    """A tiny model that calls the tool, and leaves out a term of a third of the sums."""
    try:
        choose()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("policy")
    script = ROOT / "data_prep" / "arithmetic.py"
    sizes = ["--train-size", "512", "--test-size", "16"]
    command = [sys.executable, str(script), "--out", str(folder / "plain"), *sizes]
    subprocess.run(command, check=True)
    tool_policy.main(folder / "plain", folder / "made")
    return Assets(folder / "made")


def options(folder: Path, **settings: object) -> list[str]:
    """For the tool's configuration, written to a folder, and conversations of two turns."""
    config = OmegaConf.load(ROOT / "verl_stare" / "presets" / "python_tool.yaml")
    config.tools[0].config.update({"last_call_note": False, **settings})
    folder.mkdir(parents=True, exist_ok=True)
    OmegaConf.save(config, folder / "tool.yaml")
    return [
        "algorithm.adv_estimator=stare",
        "+algorithm.stare.target_entropy=0.2",
        "data.max_response_length=96",
        "actor_rollout_ref.rollout.max_model_len=160",
        f"{MULTI_TURN}.enable=True",
        f"{MULTI_TURN}.max_assistant_turns=2",
        f"{MULTI_TURN}.tokenization_sanity_check_mode=disable",
        f"{MULTI_TURN}.tool_config_path={folder / 'tool.yaml'}",
        "reward.custom_reward_function.path=pkg://verl_stare.rewards",
        f"trainer.rollout_data_dir={folder / 'dump'}",
    ]


def test_steps_of_stare_with_the_tool(tmp_path: Path, policy: Assets) -> None:
    # A rate at which a policy that works already goes on working.
    rate = "actor_rollout_ref.actor.optim.lr=3e-4"
    run = trainer.run(tmp_path, policy, STEPS, *options(tmp_path), rate, record=True)
    assert [step["training/global_step"] for step in run.metrics] == list(range(1, STEPS + 1))
    for step in run.metrics:
        assert step["stare/gate_open"] == 1.0
        assert step["tools/called"] > 0.9
        assert step["tools/ok"] > 0.8
        assert step["tools/infrastructure"] == 0.0
        assert 0.0 < step["tools/seconds/mean"] < 10.0
    # A third of the calls leaves out a term, which is the policy's fault and not the sandbox's.
    scores = [step["critic/score/mean"] for step in run.metrics]
    assert 0.3 < sum(scores) / STEPS < 1.0
    # The mask of the real batch: what the tool wrote is in it, and out of the loss.
    tokenizer = AutoTokenizer.from_pretrained(policy.folder / "model")
    told = 0
    for values in run.rows(1).values():
        own = values["mask"] != 0
        responses = torch.tensor(values["responses"])
        assert "<tool_response>" not in tokenizer.decode(responses[own])
        told += tokenizer.decode(responses[~own]).count("<tool_response>\n")
        assert (values["weights"][~own] == 1).all()
    assert told > 50
    sums = 0
    for line in (tmp_path / "dump" / f"{STEPS}.jsonl").read_text().splitlines():
        output = json.loads(line)["output"]
        code = output.partition('"code": "')[2].partition('"')[0]
        if "<tool_response>\n" in output and re.fullmatch(r"[1-9]\d*(\+[1-9]\d*)+", code):
            # The sandbox computed it.
            printed = output.partition("<tool_response>\n")[2].partition("\n")[0]
            assert printed == str(sum(map(int, code.split("+"))))
            sums += 1
    assert sums > 30


def test_a_killed_trainer_leaves_no_sandbox(tmp_path: Path, policy: Assets) -> None:
    """All its processes at once, as a node's out-of-memory killer or a scheduler ends a job."""
    slow = options(tmp_path, limits={"wall_s": 60.0, "cpu_s": 60.0})
    environment = trainer.environment(VERL_FILE_LOGGER_PATH=str(tmp_path / "metrics.jsonl"))
    with (tmp_path / "console.log").open("w") as log:
        process = subprocess.Popen(
            trainer.command(
                *trainer.SMALL,
                *policy.overrides,
                f"hydra.run.dir={tmp_path / 'hydra'}",
                f"trainer.default_local_dir={tmp_path / 'checkpoints'}",
                "trainer.total_training_steps=1000",
                "trainer.total_epochs=1000",
                *slow,
            ),
            cwd=tmp_path,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    metrics = tmp_path / "metrics.jsonl"
    jails: set[int] = set()
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        jails = {pid for pid in traces.descendants(process.pid) if traces.is_jail(pid)}
        if jails and metrics.exists() and metrics.read_text().count("\n") >= 2:
            break
        time.sleep(0.2)
    started = traces.descendants(process.pid)
    jails |= {pid for pid in started if traces.is_jail(pid)}
    assert jails, (tmp_path / "console.log").read_text()[-3000:]
    for pid in [process.pid, *started]:
        if not traces.is_jail(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait(30)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(map(traces.running, jails)):
        time.sleep(0.05)
    assert not [pid for pid in jails if traces.running(pid)]
    assert not traces.strays()
