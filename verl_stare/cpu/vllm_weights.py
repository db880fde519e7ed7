"""Lets verl load new weights into a running vLLM on a CPU.

vLLM packs the weight of each linear layer for its CPU kernels once it is loaded, and drops the
parameter. verl loads new weights into the parameters after every step. Here they stay, and torch
multiplies by them.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
import wrapt

from verl_stare.cpu.activation import has

_MODULE = "vllm.model_executor.layers.utils"
_NAME = "dispatch_cpu_unquantized_gemm"


def install() -> None:
    """Replace vLLM's choice of a kernel.

    Raises:
        RuntimeError: this vLLM chooses it elsewhere; training would go on with old weights.
    """
    version = importlib.import_module("vllm").__version__
    module = importlib.import_module(_MODULE)
    part = f"the CPU platform with vLLM {version}"
    if not has(module, _NAME, ("layer", "remove_weight"), part=part):
        raise RuntimeError(f"{part}: {_MODULE}.{_NAME} is not as expected")
    wrapt.wrap_function_wrapper(module, _NAME, _keep_parameter)


def _keep_parameter(wrapped: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    layer = args[0] if args else kwargs["layer"]
    if layer.weight.ndim == 2:
        layer.cpu_linear = torch.nn.functional.linear
    else:
        wrapped(*args, **kwargs)
