"""What a model's own configuration says of it: size, positions, heads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verl_stare.preflight.findings import PreflightError, one_line


@dataclass(frozen=True)
class Shape:
    """A decoder of Hugging Face's.

    Attributes:
        parameters: how many, output head included.
        layer_parameters: of one layer.
        outer_parameters: of embedding and head.
        layers, hidden, intermediate, vocabulary: as in its configuration.
        heads, key_value_heads, head_size: of attention.
        positions: the longest text, in tokens.
    """

    parameters: int
    layer_parameters: int
    outer_parameters: int
    layers: int
    hidden: int
    intermediate: int
    vocabulary: int
    heads: int
    key_value_heads: int
    head_size: int
    positions: int


def read(path: str, key: str, overridden: dict[str, Any]) -> Shape:
    """Read the configuration of the model at `path`, without its weights.

    Args:
        path: a folder or an id of the hub.
        key: of the configuration, for messages.
        overridden: values of the model's configuration that the run replaces.

    Raises:
        PreflightError: there is no such model, or it cannot be read.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    refuse_absent(path, key)
    try:
        config: Any = AutoConfig.from_pretrained(path, **overridden)
    except (OSError, ValueError) as error:
        raise PreflightError(
            f"{key}={path}: the model cannot be read: {one_line(error)}"
        ) from error
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    except (ValueError, ImportError) as error:
        raise PreflightError(
            f"{key}={path}: no model that verl could train: {one_line(error)}"
        ) from error
    total = sum(parameter.numel() for parameter in model.parameters())
    layers = config.num_hidden_layers
    inner = sum(p.numel() for name, p in model.named_parameters() if ".layers." in name)
    return Shape(
        parameters=total,
        layer_parameters=inner // layers,
        outer_parameters=total - inner,
        layers=layers,
        hidden=config.hidden_size,
        intermediate=getattr(config, "intermediate_size", 4 * config.hidden_size),
        vocabulary=config.vocab_size,
        heads=config.num_attention_heads,
        key_value_heads=getattr(config, "num_key_value_heads", config.num_attention_heads),
        head_size=getattr(config, "head_dim", None)
        or config.hidden_size // config.num_attention_heads,
        positions=config.max_position_embeddings,
    )


def refuse_absent(path: str, key: str) -> None:
    """Raise a `PreflightError` where `path` is meant as a folder that is not there."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise PreflightError(f"{key}={path}: no config.json in this folder, so no model")
        return
    # An id of the hub is `name` or `owner/name`.
    if path.startswith(("/", ".", "~")) or path.count("/") > 1:
        raise PreflightError(f"{key}={path}: no such folder")
