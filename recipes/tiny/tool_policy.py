"""A tiny policy that calls the Python tool for a sum, and answers with what it printed.

Some calls leave out a term, which reinforcement learning has to unlearn: the tool computes what it
is asked, not what the question asks.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers.models.qwen2.tokenization_qwen2 import Qwen2Tokenizer

from tiny_model import END, PAD, START, build_model

TOOL = "code_interpreter"
NOISE, STEPS = 0.35, 500
TEMPLATE = (
    "{% for m in messages %}"
    "{% if m['role'] == 'tool' %}"
    "{{ '<|im_start|>user\\n<tool_response>\\n' + m['content'] }}"
    "{{ '\\n</tool_response><|im_end|>\\n' }}"
    "{% else %}"
    "{{ '<|im_start|>' + m['role'] + '\\n' + (m['content'] or '') }}"
    "{% for c in m['tool_calls'] or [] %}"
    "{{ '<tool_call>' + (c['function'] | tojson) + '</tool_call>' }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def call(terms: list[int]) -> str:
    code = "+".join(map(str, terms))
    written = json.dumps({"name": TOOL, "arguments": {"code": code}})
    return f"<tool_call>{written}</tool_call>"


def conversation(question: str, terms: list[int]) -> list[tuple[str, bool]]:
    """Its texts, and whether the model writes them."""
    return [
        (f"{START}user\n{question}{END}\n{START}assistant\n", False),
        (call(terms) + END, True),
        (
            f"\n{START}user\n<tool_response>\n{sum(terms)}\n</tool_response>{END}\n"
            f"{START}assistant\n",
            False,
        ),
        (f"#### {sum(terms)}{END}", True),
    ]


def build_tokenizer(questions: list[str]) -> Qwen2Tokenizer:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = Qwen2Tokenizer().backend_tokenizer.pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        min_frequency=2,
        special_tokens=[PAD, START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    texts = [text for q in questions for text, _ in conversation(q, [1, 2])]
    bpe.train_from_iterator([*texts, *["system", "user", "assistant", "tool"] * 2], trainer)
    state = json.loads(bpe.to_str())["model"]
    return Qwen2Tokenizer(
        vocab=state["vocab"],
        merges=[tuple(merge) for merge in state["merges"]],  # pyright: ignore[reportArgumentType]
        unk_token=PAD,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[START],
        model_max_length=256,
        chat_template=TEMPLATE,
    )


def train(model: Any, tokenizer: Any, questions: list[str], steps: int, seed: int) -> float:
    rng = random.Random(seed)
    matrices = [w for w in model.model.layers.parameters() if w.ndim == 2]
    others = [w for w in model.parameters() if all(w is not m for m in matrices)]
    optimizers = [
        torch.optim.Muon(matrices, lr=1e-2, weight_decay=0.0),
        torch.optim.AdamW(others, lr=5e-3, betas=(0.9, 0.99), weight_decay=0.0),
    ]
    loss = torch.zeros(())
    for step in range(steps):
        rows = []
        for question in rng.choices(questions, k=32):
            terms = [int(term) for term in re.findall(r"\d+", question)]
            if rng.random() < NOISE:
                terms.pop(rng.randrange(len(terms)))
            parts = conversation(question, terms)
            encoded = tokenizer([text for text, _ in parts])["input_ids"]
            rows.append(
                [
                    (token, own)
                    for ids, (_, own) in zip(encoded, parts, strict=True)
                    for token in ids
                ]
            )
        width = max(map(len, rows))
        ids = torch.full((len(rows), width), tokenizer.pad_token_id)
        labels = torch.full((len(rows), width), -100)
        for n, row in enumerate(rows):
            ids[n, : len(row)] = torch.tensor([token for token, _ in row])
            labels[n, : len(row)] = torch.tensor([t if own else -100 for t, own in row])
        hidden = model.model(input_ids=ids).last_hidden_state[:, :-1]
        graded = labels[:, 1:] != -100
        loss = F.cross_entropy(model.lm_head(hidden[graded]), labels[:, 1:][graded])
        model.zero_grad()
        loss.backward()
        rate = min(1.0, (step + 1) / 50) * max(0.1, 1 - step / steps)
        for optimizer, base in zip(optimizers, (1e-2, 5e-3), strict=True):
            optimizer.param_groups[0]["lr"] = base * rate
            optimizer.step()
    return loss.item()


def with_agent(rows: pa.Table, agent: str) -> pa.Table:
    """Rows for an agent loop, without the demo's system message if there is one."""
    at = rows.schema.get_field_index("agent_name")
    return rows.set_column(at, "agent_name", pa.array([agent] * len(rows)))


def main(data: Path, out: Path, steps: int = STEPS, seed: int = 1) -> None:
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    (out / "data").mkdir(parents=True)
    questions: list[str] = []
    for name in ("train", "test"):
        rows = pq.read_table(data / f"{name}.parquet")
        if name == "train":
            questions = [prompt[-1]["content"] for prompt in rows["prompt"].to_pylist()]
        pq.write_table(with_agent(rows, "stare_tool_agent"), out / "data" / f"{name}.parquet")
    tokenizer = build_tokenizer(questions)
    model = build_model(tokenizer, seed)
    loss = train(model, tokenizer, questions, steps, seed)
    model.save_pretrained(out / "model")
    tokenizer.save_pretrained(out / "model")
    print(f"loss {loss:.3f}, {len(tokenizer)} tokens")
