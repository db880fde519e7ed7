"""verl's entry point (group `verl.plugins`): loaded by every process that imports verl.

It only registers post-import hooks, so a process pays for no module that it does not use. verl
hides what goes wrong here in its debug log; therefore it is reported by ourselves.
"""

from __future__ import annotations

import logging

from verl_stare.bridge import hooks

logger = logging.getLogger("verl_stare")
logger.setLevel(logging.INFO)

try:
    hooks.install()

    from verl_stare.cpu import activation

    activation.install()
except Exception:
    logger.exception("verl_stare's plugin failed to load")
    raise
