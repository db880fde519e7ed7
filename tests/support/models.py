"""Folders that hold what is published of a model's shape, with a tiny tokenizer and no weights."""

import functools
import json
from pathlib import Path
from typing import Any

import tiny_model

COMMON = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "rms_norm_eps": 1e-6}
# Of each recipe's model, as its config.json has it.
SHAPES: dict[str, dict[str, Any]] = {
    "gsm8k_1.5b": {
        "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
        "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936,
        "max_position_embeddings": 32768, "tie_word_embeddings": True,
    },
    "math_7b": {
        "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
        "max_position_embeddings": 4096, "tie_word_embeddings": False,
    },
    "short_cot_14b": {
        "hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 48,
        "num_attention_heads": 40, "num_key_value_heads": 8, "vocab_size": 152064,
        "max_position_embeddings": 32768, "tie_word_embeddings": False,
    },
    "short_cot_32b": {
        "hidden_size": 5120, "intermediate_size": 27648, "num_hidden_layers": 64,
        "num_attention_heads": 40, "num_key_value_heads": 8, "vocab_size": 152064,
        "max_position_embeddings": 131072, "tie_word_embeddings": False,
    },
    "r1_distill_1.5b": {
        "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
        "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936,
        "max_position_embeddings": 131072, "tie_word_embeddings": False,
    },
    "qwen3_8b": {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 128,
        "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 151936,
        "max_position_embeddings": 32768, "tie_word_embeddings": False,
    },
}  # fmt: skip
SHAPES["dapo_32b"] = SHAPES["short_cot_32b"]
SHAPES["tool_7b"] = SHAPES["retool_7b"] = {
    **SHAPES["math_7b"],
    "max_position_embeddings": 131072,
}


@functools.cache
def tokenizer() -> Any:
    return tiny_model.build_tokenizer([[{"role": "user", "content": "What is 1 + 2?"}]])


def write(folder: Path, name: str) -> Path:
    """Make the folder of a recipe's model under `folder`; again has no effect."""
    path = folder / name
    if not path.exists():
        path.mkdir(parents=True)
        (path / "config.json").write_text(json.dumps({**COMMON, **SHAPES[name]}))
        tokenizer().save_pretrained(path)
        tuned = json.loads((path / "tokenizer_config.json").read_text())
        tuned["model_max_length"] = 131072
        (path / "tokenizer_config.json").write_text(json.dumps(tuned))
    return path
