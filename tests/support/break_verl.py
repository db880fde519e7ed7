"""Loaded before our plugin by VERL_USE_EXTERNAL_MODULES: a verl that has changed, by $BREAK."""

import os
import sys

import wrapt

verl = sys.modules["verl"]
what = os.environ["BREAK"]

if what == "version":
    verl.__version__ = "0.10.0"
else:
    wrapt.register_post_import_hook(
        lambda module: delattr(module, what), "verl.trainer.ppo.v1.trainer_base"
    )
