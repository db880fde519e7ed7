"""Train the CPU demo's tiny model until it half knows sums.

A randomly initialised model earns no reward to learn from, so it is first trained, supervised, on
worked solutions such as "4+7=11;1+11=12;12+7=19;19". Terms are added in random order and some
partial sums are wrong on purpose: that leaves reinforcement learning real entropy to spend and
answers to correct.
"""

import argparse
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
import torch.nn.functional as F
from tqdm import tqdm

from reward import compute_score
from tiny_model import END, Prompt, build_model, build_tokenizer, check_replaceable, save

STEPS, NOISE = 1200, 0.2
MAX_RESPONSE_TOKENS = 32  # the longest worked solution, all tens, is 30 with its end token

EXAMPLE = """\
example:
  python data_prep/arithmetic.py --out data/arithmetic
  python recipes/demo/warm_start.py --data data/arithmetic --out models/demo

One seed gives one model on one machine. --out is replaced as a whole, and only if this script
wrote it; warm_start.json inside it holds the options, the accuracy and the entropy."""


def worked_solution(terms: Sequence[int], noise: float, rng: random.Random) -> str:
    """Add ``terms`` one by one in random order; each sum is wrong with probability ``noise``."""
    rest = rng.sample(terms, len(terms))
    total = rest.pop()
    steps = []
    while rest:
        left, right = rng.sample((total, rest.pop()), 2)
        total = left + right
        if rng.random() < noise:
            total = max(0, total + rng.choice((-2, -1, 1, 2)))
        steps.append(f"{left}+{right}={total}")
    return ";".join([*steps, str(total)])


def read_prompts(path: Path) -> tuple[list[Prompt], list[str]]:
    """Return the chat prompts and the ground truths of one of data_prep's parquet files."""
    rows = pq.read_table(path, columns=["prompt", "reward_model"]).to_pylist()
    return [row["prompt"] for row in rows], [row["reward_model"]["ground_truth"] for row in rows]


def train(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    *,
    steps: int,
    noise: float,
    seed: int,
    batch_size: int = 32,
) -> float:
    """Fit ``model`` in place to fresh worked solutions at every step; return the last loss."""
    rng = random.Random(seed)
    encoded = tokenizer.apply_chat_template(prompts, add_generation_prompt=True)["input_ids"]
    terms = [[int(term) for term in re.findall(r"\d+", p[-1]["content"])] for p in prompts]
    # Muon on the layers' matrices needs about half the steps that AdamW alone does here.
    matrices = [w for w in model.model.layers.parameters() if w.ndim == 2]
    others = [w for w in model.parameters() if all(w is not m for m in matrices)]
    optimizers = [
        torch.optim.Muon(matrices, lr=1e-2, weight_decay=0.0),
        torch.optim.AdamW(others, lr=5e-3, betas=(0.9, 0.99), weight_decay=0.0),
    ]

    def rate(step: int) -> float:
        return min(1.0, (step + 1) / 50) * max(0.1, 1 - step / steps)

    schedules = [torch.optim.lr_scheduler.LambdaLR(each, rate) for each in optimizers]
    model.train()
    bar = tqdm(range(steps), desc="warm start", unit="step")
    for _ in bar:
        chosen = [rng.randrange(len(prompts)) for _ in range(batch_size)]
        solutions = tokenizer([worked_solution(terms[i], noise, rng) + END for i in chosen])
        pairs = [(encoded[i], s) for i, s in zip(chosen, solutions["input_ids"], strict=True)]
        width = max(len(prompt) + len(solution) for prompt, solution in pairs)
        ids = torch.full((batch_size, width), tokenizer.pad_token_id)
        labels = torch.full((batch_size, width), -100)
        for row, (prompt, solution) in enumerate(pairs):
            end = len(prompt) + len(solution)
            ids[row, :end] = torch.tensor(prompt + solution)
            labels[row, len(prompt) : end] = torch.tensor(solution)
        hidden = model.model(input_ids=ids).last_hidden_state[:, :-1]
        graded = labels[:, 1:] != -100  # the output head is costly: only where there is a label
        loss = F.cross_entropy(model.lm_head(hidden[graded]), labels[:, 1:][graded])
        model.zero_grad()
        loss.backward()
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
        bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
    return loss.item()


@torch.no_grad()
def measure(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    answers: Sequence[str],
) -> dict[str, float]:
    """Accuracy and mean token entropy (nats) of one temperature-1 sample a prompt."""
    model.eval()
    inputs = tokenizer.apply_chat_template(
        list(prompts),
        add_generation_prompt=True,
        padding=True,
        return_tensors="pt",
        tokenizer_kwargs={"padding_side": "left"},
    )
    generated = model.generate(
        **inputs,
        max_new_tokens=MAX_RESPONSE_TOKENS,
        return_dict_in_generate=True,
        output_logits=True,
    )
    responses = generated.sequences[:, inputs["input_ids"].shape[1] :]
    ended = responses == tokenizer.eos_token_id
    mask = ended.cumsum(-1) - ended.long() == 0  # up to and including the end token
    log_probs = torch.stack(generated.logits, dim=1).log_softmax(-1)
    entropy = -(log_probs.exp() * log_probs).sum(-1)[mask].mean()
    texts = tokenizer.batch_decode(responses, skip_special_tokens=True)
    scores = [
        compute_score("", text, gold)["acc"] for text, gold in zip(texts, answers, strict=True)
    ]
    return {
        "accuracy": sum(scores) / len(scores),
        "entropy": entropy.item(),
        "prompt_tokens_max": inputs["input_ids"].shape[1],
        "response_tokens_mean": mask.sum(-1).float().mean().item(),
    }


def warm_start(
    data: Path, out: Path, *, seed: int, steps: int, noise: float, samples: int = 512
) -> dict[str, Any]:
    """Build, train, measure on training questions and save; return what was measured."""
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    check_replaceable(out)
    begin = time.monotonic()
    prompts, answers = read_prompts(data / "train.parquet")
    tokenizer = build_tokenizer(prompts)
    model = build_model(tokenizer, seed)
    loss = train(model, tokenizer, prompts, steps=steps, noise=noise, seed=seed)
    torch.manual_seed(seed)
    report = {
        "options": {"seed": seed, "steps": steps, "noise": noise},
        "parameters": model.num_parameters(),
        "vocabulary": len(tokenizer),
        "loss": loss,
        **measure(model, tokenizer, prompts[:samples], answers[:samples]),
        "seconds": round(time.monotonic() - begin, 1),
    }
    save(out, model, tokenizer, report)
    return report


def main() -> None:
    """Parse the command line and build the policy."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder that data_prep/arithmetic.py wrote")
    add("--out", type=Path, required=True, help="model folder to write")
    add("--seed", type=int, default=1, help="weights and solutions (default %(default)s)")
    add("--steps", type=int, default=STEPS, help="supervised steps (default %(default)s)")
    add("--noise", type=float, default=NOISE, help="chance of a wrong sum (default %(default)s)")
    add("--threads", type=int, default=1, help="CPU threads (default %(default)s)")
    args = parser.parse_args()
    if not (args.data / "train.parquet").is_file():
        parser.error(f"{args.data} has no train.parquet: run data_prep/arithmetic.py first")
    torch.set_num_threads(args.threads)
    report = warm_start(args.data, args.out, seed=args.seed, steps=args.steps, noise=args.noise)
    print(
        f"{args.out}: accuracy {report['accuracy']:.3f} at temperature 1, "
        f"mean token entropy {report['entropy']:.3f} nats, {report['seconds']} s"
    )


if __name__ == "__main__":
    main()
