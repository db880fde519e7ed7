"""The demo's policy before it has learned anything: tokenizer, chat template, a tiny Qwen2."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, GenerationConfig, Qwen2Config, Qwen2ForCausalLM
from transformers.models.qwen2.tokenization_qwen2 import Qwen2Tokenizer

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
Prompt = list[dict[str, str]]  # chat messages


def build_tokenizer(prompts: Sequence[Prompt]) -> Qwen2Tokenizer:
    """Train byte-level BPE on chat ``prompts``: all 256 bytes, then a token a recurring word.

    transformers loads any tokenizer beside a qwen2 config as Qwen2Tokenizer, which replaces the
    saved pre-tokenizer by Qwen2's. Training under that same one keeps ids equal after reloading;
    it also keeps every digit a token of its own.
    """
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = Qwen2Tokenizer().backend_tokenizer.pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        min_frequency=2,
        special_tokens=[PAD, START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    texts = [message["content"] for prompt in prompts for message in prompt]
    bpe.train_from_iterator([*texts, *["system", "user", "assistant"] * 2], trainer)
    state = json.loads(bpe.to_str())["model"]
    return Qwen2Tokenizer(
        vocab=state["vocab"],
        merges=[tuple(merge) for merge in state["merges"]],  # pyright: ignore[reportArgumentType]
        unk_token=PAD,  # never produced: every byte has a token
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[START],
        model_max_length=256,
        chat_template=CHAT_TEMPLATE,
    )


def build_model(tokenizer: Any, seed: int) -> Qwen2ForCausalLM:
    """A randomly initialised two-layer Qwen2, about 83 thousand parameters beside embeddings."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer) + -len(tokenizer) % 8,
        hidden_size=64,
        intermediate_size=128,
        initializer_range=0.1,  # 0.02, the default, starts a model this narrow slowly
        num_hidden_layers=2,
        num_attention_heads=2,  # head size 32, the least that vLLM's CPU kernels accept
        num_key_value_heads=2,
        max_position_embeddings=256,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen2ForCausalLM(config)
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return model


def check_replaceable(out: Path) -> None:
    """Refuse to replace a folder that holds anything but an earlier warm start."""
    if out.exists() and not (out / "warm_start.json").is_file():
        raise FileExistsError(f"{out} exists and was not written by warm_start.py")


def save(out: Path, model: Any, tokenizer: Any, report: dict[str, Any]) -> None:
    """Write model, tokenizer and ``warm_start.json`` to ``out``, all of them or nothing."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as parent:
        made = Path(parent) / "made"
        model.save_pretrained(made)
        tokenizer.save_pretrained(made)
        reloaded = AutoTokenizer.from_pretrained(made)
        probe = f"{START}user\nCalculate 4 + 10 + 0 + 9.{END}\n4+10=14;né\t☃\n"
        if reloaded(probe)["input_ids"] != tokenizer(probe)["input_ids"]:
            raise RuntimeError(f"the reloaded tokenizer differs on {probe!r}")
        (made / "warm_start.json").write_text(json.dumps(report, indent=2) + "\n")
        if out.exists():
            check_replaceable(out)
            out.rename(Path(parent) / "old")
        made.rename(out)
