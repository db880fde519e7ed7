"""An estimate of what the run needs of each GPU's memory, and whether that is there.

It counts what grows with the model and the tokens; it is not measured. FSDP with full sharding,
full fine-tuning by AdamW and gradient checkpointing, half precision in compute and fp32 in storage.
"""

from __future__ import annotations

from dataclasses import dataclass

from verl_stare.preflight.model import Shape

GIB = 2**30
HALF, FULL = 2, 4
# CUDA context, communication buffers, fragmentation, what a sleeping vLLM keeps.
FIXED = 3 * GIB
# vLLM's own working memory inside its share: CUDA graphs, activations of a prefill.
ENGINE = 3 * GIB


@dataclass(frozen=True)
class Setup:
    """What of a run's configuration decides its memory.

    Attributes:
        ranks: GPUs that the weights are sharded over.
        tokens: in a micro-batch of the actor, for each GPU.
        log_prob_tokens: the same of the log-prob pass.
        param_offload, optimizer_offload: to the host while the actor does not work.
        utilization: vLLM's share of the GPU; 0 where no rollout shares it.
        tensor_parallel: of the rollout.
        model_length: the longest text of the rollout, in tokens.
        checkpointing: of gradients.
    """

    ranks: int
    tokens: int
    log_prob_tokens: int
    param_offload: bool
    optimizer_offload: bool
    utilization: float
    tensor_parallel: int
    model_length: int
    checkpointing: bool = True


@dataclass(frozen=True)
class Estimate:
    """Bytes of one GPU.

    Attributes:
        weights, gradients, optimizer: sharded, fp32.
        gathered: layers that are whole for a moment, with their gradients.
        activations: of one micro-batch.
        logits: of one micro-batch, in the update.
        log_prob: peak of the log-prob pass.
        update: peak of the actor's update.
        rollout: vLLM's share and what the trainer keeps beside it.
        cache: vLLM's KV cache.
        sequences: of full length that the cache of one replica holds.
        host: of a node's memory for what is offloaded, per GPU.
    """

    weights: float
    gradients: float
    optimizer: float
    gathered: float
    activations: float
    logits: float
    log_prob: float
    update: float
    rollout: float
    cache: float
    sequences: float
    host: float


def estimate(shape: Shape, setup: Setup, gpu: float) -> Estimate:
    """Estimate one GPU's memory.

    Args:
        shape: the model.
        setup: of the run.
        gpu: bytes of the GPU.
    """
    weights = FULL * shape.parameters / setup.ranks
    optimizer = 2 * weights
    # Two units are whole at a time (the next is fetched), in half precision, with gradients.
    unit = max(shape.layer_parameters, shape.outer_parameters)
    gathered = 2 * 2 * unit * HALF if setup.ranks > 1 else unit * HALF
    one_layer = setup.tokens * (10 * shape.hidden + 4 * shape.intermediate) * HALF
    kept = setup.tokens * shape.hidden * HALF
    activations = shape.layers * (kept if setup.checkpointing else one_layer) + one_layer
    # As they come, in fp32, and their gradient.
    logits = setup.tokens * shape.vocabulary * (HALF + FULL + HALF)
    forward = setup.log_prob_tokens * shape.vocabulary * (HALF + FULL)
    asleep = 0.0 if setup.optimizer_offload else optimizer
    cache_token = 2 * shape.layers * shape.key_value_heads * shape.head_size * HALF
    served = min(setup.tensor_parallel, shape.key_value_heads)
    cache = setup.utilization * gpu - HALF * shape.parameters / setup.tensor_parallel - ENGINE
    return Estimate(
        weights=weights,
        gradients=weights,
        optimizer=optimizer,
        gathered=gathered,
        activations=activations,
        logits=logits,
        log_prob=weights + asleep + gathered / 2 + one_layer + forward + FIXED,
        update=weights * 2 + optimizer + gathered + activations + logits + FIXED,
        rollout=setup.utilization * gpu
        + (0.0 if setup.param_offload else weights)
        + asleep
        + FIXED,
        cache=cache,
        sequences=cache * served / (cache_token * setup.model_length),
        host=weights * setup.param_offload + optimizer * setup.optimizer_offload,
    )
