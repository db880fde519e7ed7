"""The controller's state in a checkpoint's folder."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from verl_stare.algo import ControllerState
from verl_stare.bridge import state
from verl_stare.config import StareConfig

ADAPTIVE = StareConfig(variant="C2", adaptive=True)
SAVED = ControllerState(amplify=1.25, attenuate=0.71)


def test_what_is_saved_is_restored_exactly(tmp_path: Path, caplog: Any) -> None:
    odd = ControllerState(amplify=1.1 + 0.01 + 0.01, attenuate=0.9 - 0.01 - 0.01)
    state.save(tmp_path / "global_step_7", 7, ADAPTIVE, odd)
    with caplog.at_level(logging.WARNING, logger="verl_stare"):
        assert state.load(tmp_path / "global_step_7", 7, ADAPTIVE) == odd
    assert not caplog.records
    assert [path.name for path in (tmp_path / "global_step_7").iterdir()] == [state.FILE]


def test_a_checkpoint_without_state_starts_afresh_with_one_warning(
    tmp_path: Path, caplog: Any
) -> None:
    with caplog.at_level(logging.INFO, logger="verl_stare"):
        assert state.load(tmp_path, 3, ADAPTIVE) == ControllerState.initial(ADAPTIVE)
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert str(tmp_path / state.FILE) in record.getMessage()


def damaged(**changes: Any) -> str:
    content = {
        "format": state.FORMAT,
        "step": 3,
        "state": {"amplify": 1.2, "attenuate": 0.8},
        "settings": {"adaptive": True},
    }
    return json.dumps(content | changes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        damaged(step=4),
        damaged(format=99),
        damaged(state={"amplify": 1.2}),
        damaged(state={"amplify": "1.2", "attenuate": 0.8}),
        damaged(state={"amplify": float("nan"), "attenuate": 0.8}),
        damaged(state={"amplify": 0.5, "attenuate": 0.8}),
        damaged(state={"amplify": 1.2, "attenuate": 0}),
        damaged(settings=None),
        damaged()[:-20],
    ],
)
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / state.FILE
    path.write_text(text)
    with pytest.raises(state.StateError, match="is not the state of STARE at step 3") as caught:
        state.load(tmp_path, 3, ADAPTIVE)
    assert str(path) in str(caught.value)


def test_bytes_that_are_no_text_are_an_error_too(tmp_path: Path) -> None:
    (tmp_path / state.FILE).write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(state.StateError):
        state.load(tmp_path, 3, ADAPTIVE)


@pytest.mark.parametrize(
    ("now", "expected", "reported"),
    [
        (
            StareConfig(variant="C2", adaptive=True, alpha=0.05, target_entropy=0.2),
            SAVED,
            ["target_entropy: 0.3 -> 0.2", "alpha: 0.01 -> 0.05"],
        ),
        # The bounds of now hold.
        (
            StareConfig(variant="C2", adaptive=True, amplify_max=1.2, attenuate_min=0.8),
            ControllerState(1.2, 0.8),
            ["amplify_max: 1.5 -> 1.2", "attenuate_min: 0.5 -> 0.8"],
        ),
        # Without a schedule W and M are as configured.
        (
            StareConfig(variant="C2", amplify=1.4),
            ControllerState(1.4, 0.9),
            ["adaptive: True -> False", "amplify: 1.1 -> 1.4"],
        ),
    ],
)
def test_changed_settings_are_reported(
    tmp_path: Path, caplog: Any, now: StareConfig, expected: ControllerState, reported: list[str]
) -> None:
    state.save(tmp_path, 3, ADAPTIVE, SAVED)
    with caplog.at_level(logging.WARNING, logger="verl_stare"):
        assert state.load(tmp_path, 3, now) == expected
    [record] = caplog.records
    for change in reported:
        assert change in record.getMessage()


def test_a_schedule_that_is_switched_on_starts_from_the_configured_weights(tmp_path: Path) -> None:
    state.save(tmp_path, 3, StareConfig(variant="C2"), SAVED)
    assert state.load(tmp_path, 3, ADAPTIVE) == ControllerState.initial(ADAPTIVE)
