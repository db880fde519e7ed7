"""What a training command's configuration asks of STARE."""

from __future__ import annotations

import dataclasses
import importlib.util
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verl_stare.config import PREFIX, ConfigError, StareConfig
from verl_stare.doctor.report import Line, fail, note, ok

CONFIG_NAME = "ppo_trainer"


@dataclass
class Configuration:
    """The arguments given to `python -m verl.trainer.main_ppo`.

    Attributes:
        name: `--config-name`.
        path: `--config-path`, absolute or relative to the folder of main_ppo, as for Hydra.
        overrides: of Hydra.
        expect_on: leaving STARE off is a failure.
        composed: verl's whole configuration, None until `check` has composed it.
    """

    name: str = CONFIG_NAME
    path: str = "config"
    overrides: tuple[str, ...] = ()
    expect_on: bool = False
    composed: Any = None

    def __str__(self) -> str:
        return shlex.join([self.name, *self.overrides])

    def check(self) -> Iterator[Line]:
        """Which toggles it switches on, or why it cannot be used."""
        self.composed = config = self._compose()
        from omegaconf import OmegaConf
        from verl.trainer.ppo.utils import need_critic

        from verl_stare.bridge import request

        try:
            asked = request.read(config)
        except ConfigError as error:
            yield fail(str(error))
            return
        if asked is not None:
            yield ok(f"STARE would be on: {asked.describe()}")
            yield from _differences(asked.settings)
        else:
            verdict = fail if self.expect_on else note
            estimator = OmegaConf.select(config, request.ESTIMATOR)
            toggles = f"neither {request.ESTIMATOR} ({estimator}) nor {request.LOSS_MODE}"
            yield verdict(f"STARE would be off: {toggles} is {request.NAME}")
            if OmegaConf.select(config, PREFIX) is not None:
                yield note(f"what is set under {PREFIX} has no effect")
        yield note(f"a critic would {'' if need_critic(config) else 'not '}be trained")

    def _compose(self) -> Any:
        """As Hydra does for verl's entry point."""
        import hydra

        entry_point = importlib.util.find_spec("verl.trainer.main_ppo")
        assert entry_point is not None and entry_point.origin is not None
        # An absolute path stays as it is.
        folder = (Path(entry_point.origin).parent / self.path).resolve()
        with hydra.initialize_config_dir(str(folder), version_base=None):
            return hydra.compose(self.name, overrides=list(self.overrides))


def _differences(settings: StareConfig) -> Iterator[Line]:
    for field in dataclasses.fields(StareConfig):
        value = getattr(settings, field.name)
        if value != field.default:
            yield ok(f"{PREFIX}.{field.name}={value} (default: {field.default})")
