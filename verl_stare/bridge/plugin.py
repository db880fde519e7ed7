"""verl's entry point (group `verl.plugins`): loaded by every process that imports verl.

It registers post-import hooks and an interpolation of the presets only, so a process pays for no
module that it does not use. verl hides what goes wrong here in its debug log; so it is reported by
ourselves.
"""

from __future__ import annotations

import logging

from verl_stare.bridge import hooks
from verl_stare.presets import resolver

logger = logging.getLogger("verl_stare")
logger.setLevel(logging.INFO)

try:
    resolver.register()
    hooks.install()

    from verl_stare.cpu import activation

    activation.install()
except Exception:
    logger.exception("verl_stare's plugin failed to load")
    raise
