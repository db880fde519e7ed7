"""STARE's arithmetic: torch and NumPy, no verl, ray or hydra.

Tensors may be flat, padded or jagged (nested); what one call takes must share one layout. Tokens
are told apart by `response_mask` alone, so padding and tool output can never take part.
"""

from verl_stare.algo.controller import ControllerState, decide
from verl_stare.algo.weights import (
    Decision,
    QuadrantWeights,
    token_weights,
    weighted_advantages,
)

__all__ = [
    "ControllerState",
    "Decision",
    "QuadrantWeights",
    "decide",
    "token_weights",
    "weighted_advantages",
]
