"""A rough idea of how long a step takes; not measured, and its assumptions are printed with it."""

from __future__ import annotations

from verl_stare.preflight.model import Shape

BANDWIDTH = 3.35e12 * 0.6  # bytes a second of an H100's memory, of which decoding gets this share
COMPUTE = 989e12 * 0.4  # half-precision operations a second of an H100, of which training gets this
ASSUMED = "H100, responses of half the limit, two rounds of generation"


def step_seconds(
    shape: Shape, *, rows: int, response: int, gpus: int, tensor_parallel: int
) -> tuple[float, float]:
    """Seconds of a step: generating, and the rest (log-probs and update).

    Args:
        shape: the model.
        rows: trajectories a step.
        response: longest response, in tokens.
        gpus: all of them.
        tensor_parallel: of the rollout.
    """
    replicas = max(1, gpus // tensor_parallel)
    at_once = rows / replicas
    cache_token = 2 * shape.layers * shape.key_value_heads * shape.head_size * 2
    # Decoding reads the weights and the caches once a token.
    read = (2 * shape.parameters + at_once * cache_token * response / 2) / tensor_parallel
    generating = 2 * response * read / BANDWIDTH
    tokens = rows * response / 2
    # 2 operations a parameter and token forward, 4 backward, 2 to compute activations again; and
    # the log-prob pass.
    rest = tokens * shape.parameters * (2 + 2 + 4 + 2) / (gpus * COMPUTE)
    return generating, rest
