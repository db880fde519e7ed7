"""Loaded by VERL_USE_EXTERNAL_MODULES: SIGKILL while the checkpoint of step `$KILL_AT` is written.

It comes after the actor's files and STARE's state, before verl's tracker file names the step.
"""

import os
import signal
from typing import Any

import wrapt


def _wrap(module: Any) -> None:
    def save(wrapped: Any, trainer: Any, args: Any, kwargs: Any) -> Any:
        if trainer.global_steps != int(os.environ["KILL_AT"]):
            return wrapped(*args, **kwargs)
        loader = trainer.train_dataloader
        # verl asks for this between the actor's files and the tracker file.
        loader.state_dict = lambda: os.kill(os.getpid(), signal.SIGKILL)
        return wrapped(*args, **kwargs)

    wrapt.wrap_function_wrapper(module.PPOTrainer, "_save_checkpoint", save)


wrapt.register_post_import_hook(_wrap, "verl.trainer.ppo.v1.trainer_base")
