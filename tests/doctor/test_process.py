"""What is found in one process: verl as it is, and verl or the plugin with something amiss."""

import sys
from collections.abc import Iterable
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pytest
import verl
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.v1 import trainer_base
from verl.workers.utils import losses

from verl_stare.bridge import seams
from verl_stare.doctor import process, versions
from verl_stare.doctor.report import Line, describe, fail, guarded, ok


def failures(lines: Iterable[Line]) -> list[str]:
    return [line.text for line in lines if line.failed]


def test_each_seam_is_a_line() -> None:
    lines = list(process.seams_found())
    assert [line.status for line in lines] == ["ok"] * len(seams.SEAMS)
    assert "trainer_base.get_trainer_cls: put the mixin on every trainer" in "".join(
        line.text for line in lines
    )


def test_a_missing_seam_fails_with_its_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(trainer_base.PPOTrainer, "_update_actor")
    assert failures(process.seams_found()) == [
        "verl.trainer.ppo.v1.trainer_base.PPOTrainer._update_actor is missing: "
        "hand the decision to the actor"
    ]


def test_a_module_that_cannot_be_imported_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, seams.LOSSES, None)
    [failure] = failures(process.seams_found())
    assert failure.startswith(f"{seams.LOSSES} cannot be imported: ModuleNotFoundError: ")


def test_the_plugin_is_active() -> None:
    lines = list(process.plugin_active())
    assert failures(lines) == []
    assert ok("verl has loaded verl_stare.bridge.plugin (entry point stare)") in lines
    assert len(lines) == 8


def test_functions_that_are_verls_own_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "ppo_loss", losses.ppo_loss.__wrapped__)
    monkeypatch.setattr(trainer_base, "get_trainer_cls", trainer_base.TRAINER_REGISTRY.__getitem__)
    bare, own = failures(process.plugin_active())
    assert bare.startswith("verl's trainers without STARE's part: ")
    assert "sync" in bare
    assert own.startswith("verl.workers.utils.losses.ppo_loss is verl's own")


def test_what_wraps_ours_is_still_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    import functools

    wrapper = functools.wraps(losses.ppo_loss)(lambda *args, **kwargs: None)
    monkeypatch.setattr(losses, "ppo_loss", wrapper)
    assert failures(process.plugin_active()) == []


def test_names_that_are_missing_or_anothers_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(core_algos.POLICY_LOSS_REGISTRY, "stare")
    monkeypatch.setitem(core_algos.ADV_ESTIMATOR_REGISTRY, "stare", lambda: None)
    assert failures(process.plugin_active()) == [
        "advantage estimator stare is another package's",
        "policy loss stare is not registered",
    ]


def test_no_trainer_at_all_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer_base, "TRAINER_REGISTRY", {})
    assert failures(process.plugin_active()) == ["verl has registered no trainer"]


def test_what_other_parts_reported_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = [(seams.STARE, "shown as a seam"), ("the CPU platform", "it cannot act")]
    monkeypatch.setattr(seams, "_problems", reported)
    assert failures(process.plugin_active()) == ["it cannot act"]


@pytest.mark.parametrize("switch", ["none", "other, another"])
def test_a_plugin_switched_off_fails_once(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, process.PLUGIN)
    monkeypatch.setenv(process.SWITCH, switch)
    assert list(process.plugin_active()) == [
        fail(f"VERL_USE_EXTERNAL_PLUGINS={switch} switches the plugin off: allow stare")
    ]


def entry_point(monkeypatch: pytest.MonkeyPatch, load: Any) -> None:
    monkeypatch.delitem(sys.modules, process.PLUGIN)
    entry = SimpleNamespace(name="stare", value=process.PLUGIN, load=load)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [entry] if load else [])


def test_a_package_that_is_not_installed_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    entry_point(monkeypatch, None)
    [failure] = failures(process.plugin_active())
    assert failure.startswith("no entry point verl_stare.bridge.plugin in group verl.plugins")


def test_a_plugin_that_raises_fails_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> None:
        raise OSError("no such\nlibrary")

    monkeypatch.setenv(process.SWITCH, "other, Stare")
    entry_point(monkeypatch, load)
    assert failures(process.plugin_active()) == [
        "verl_stare.bridge.plugin fails to load: OSError: no such library"
    ]


def test_an_unsupported_verl_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failures(versions.check()) == []
    monkeypatch.setattr(verl, "__version__", "0.10.0")
    assert failures(versions.check()) == ["verl 0.10.0 (supported: <0.10,>=0.9.1)"]


def test_what_is_not_installed_fails_unless_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "REQUIRED", ("not-there",))
    monkeypatch.setattr(versions, "OPTIONAL", {"nor-there": "some use"})
    lines = list(versions.check())
    assert failures(lines) == ["not-there is not installed"]
    assert lines[-1].text == "nor-there is not installed (optional: some use)"


def test_an_exception_is_a_line_after_those_before_it() -> None:
    def check() -> Iterable[Line]:
        yield ok("first")
        raise KeyError("second")

    assert list(guarded(check)) == [ok("first"), fail("KeyError: 'second'")]


def test_an_endless_message_is_cut() -> None:
    shown = describe(ValueError("x" * 1000))
    assert shown.startswith("ValueError: xxx")
    assert shown.endswith("xxx ...")
    assert len(shown) < 450
