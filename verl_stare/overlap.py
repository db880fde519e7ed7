"""How well the top-P% set overlaps the tokens that truly raise entropy, on dumped rollouts.

STARE selects by surprisal alone, which is all that training has at hand. Theory has an exact
criterion, the sign of dH/dη (see `verl_stare.algo.dynamics`), which takes the whole distribution of
every token. This command computes it for one training batch, by one teacher-forced pass:

    python -m verl_stare.overlap --model MODEL --rollouts rollouts/20.jsonl --json overlap.json

verl writes a file a step with `trainer.rollout_data_dir=rollouts`. It keeps less than was trained
on, so the figures are those of a close copy of the batch:

- Text is kept without special tokens. The markers of the chat are put back where the prompt is one
  user message under the model's chat template (checked by decoding the result). The end token of a
  response is not put back, so it is not counted.
- Text is tokenised anew, which can give other tokens than those that were sampled.
- Tool output cannot be told from the model's own text: do not use it on rollouts with tools.
- Advantages are GRPO's: scores are normalised in each group. Rows of one group share the first part
  of `uid`, which verl's V1 trainer writes, or else the prompt.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verl_stare.files import replace_text
from verl_stare.rollouts import InputError, Rollout, group_advantages, read

if TYPE_CHECKING:
    from torch import Tensor

# Logits in double precision at a time: 64 MiB an array.
_CHUNK = 2**23
_PLACEHOLDER = "placeholder"

EPILOG = """\
The model has to be the policy that sampled the rollouts: for step N, the weights after N - 1
updates. A training checkpoint becomes such a folder by `python -m verl.model_merger merge`. Pass
the temperature of the rollout, which training computes its log-probs at.

The table tells, for the tokens of positive advantage (T+) of the whole batch:
  truly raising         share of the selected tokens whose step raises their entropy, beside the
                        same share among all of T+
  of all raising        share of the entropy-raising tokens of T+ that were selected
  of the raised entropy the same, every token counted by its dH/dη
  break-even weight     W at which selected tokens make up for what the batch loses, to first order
  micro-batches         how much of the batch-wide selection a selection made inside each
                        micro-batch (of so many rows, in the file's order) finds again

examples:
  python -m verl_stare.overlap --model models/demo --rollouts rollouts/1.jsonl
  python -m verl_stare.overlap --model /models/Qwen2.5-7B --rollouts rollouts/1.jsonl \\
    --top-fraction 0.2 --micro-batches 8,32 --json overlap.json

exit code: 0, or 2 where the input cannot be used (one line on stderr says why)."""


@dataclass(frozen=True)
class Scored:
    """The response tokens of the rows that could be used, flat and in order, double precision."""

    rows: Tensor  # (tokens,), int64: the row that each token is of, counted from 0
    advantages: Tensor
    surprisal: Tensor
    entropy: Tensor
    s2: Tensor
    restored: int  # rows whose chat markers were put back
    unused: Counter[str]  # why a row was not used: number of rows


def load(folder: Path, device: str) -> tuple[Any, Any]:
    """The model, in its own dtype, and its tokenizer; nothing is downloaded.

    Raises:
        InputError: the folder does not hold them.
    """
    if not (folder / "config.json").is_file():
        raise InputError(f"--model {folder}: no config.json there; give a Hugging Face folder")
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype="auto", local_files_only=True
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise InputError(f"--model {folder}: {_first_line(error)}") from None
    try:
        return model.to(device).eval(), tokenizer
    # AssertionError: a torch that was built without this kind of device.
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"--device {device}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def encode_prompt(tokenizer: Any, text: str) -> tuple[list[int], bool]:
    """Tokens of a dumped prompt, and whether the special tokens that the dump left out are back."""

    def encode(rendered: str) -> list[int]:
        return tokenizer(rendered, add_special_tokens=False)["input_ids"]

    def render(content: str) -> str:
        message = [{"role": "user", "content": content}]
        return tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)

    if tokenizer.chat_template:
        before, _, after = (
            tokenizer.decode(encode(part), skip_special_tokens=True)
            for part in render(_PLACEHOLDER).partition(_PLACEHOLDER)
        )
        tokens = encode(render(text[len(before) : len(text) - len(after)]))
        if tokenizer.decode(tokens, skip_special_tokens=True) == text:
            return tokens, True
    return tokenizer(text)["input_ids"], False


def score(
    model: Any,
    tokenizer: Any,
    rollouts: Sequence[Rollout],
    advantages: Sequence[float],
    temperature: float,
) -> Scored:
    """One teacher-forced pass a row: surprisal, H and S2 of its response tokens.

    Raises:
        InputError: no row can be used.
    """
    import torch
    from tqdm import tqdm

    from verl_stare.algo.dynamics import token_statistics

    longest = getattr(model.config, "max_position_embeddings", None) or math.inf
    unused: Counter[str] = Counter()
    columns: list[list[Tensor]] = []
    restored = 0
    bar = tqdm(list(zip(rollouts, advantages, strict=True)), desc="scoring", unit="row")
    for rollout, advantage in bar:
        prompt, marked = encode_prompt(tokenizer, rollout.prompt)
        response = tokenizer(rollout.response, add_special_tokens=False)["input_ids"]
        if not math.isfinite(advantage):
            unused["score is not finite"] += 1
            continue
        if not prompt or not response:
            unused["empty prompt or response"] += 1
            continue
        if "\ufffd" in rollout.response:
            unused["response was cut inside a character (U+FFFD)"] += 1
            continue
        if len(prompt) + len(response) > longest:
            unused[f"longer than the model's {longest} positions"] += 1
            continue
        count = len(response)
        tokens = torch.tensor([prompt + response], device=model.device)
        with torch.inference_mode():
            # The logits that predict the response: those of the position before each token.
            logits = model(tokens[:, :-1], use_cache=False, logits_to_keep=count).logits[0]
            size = max(1, _CHUNK // logits.shape[-1])
            parts = [
                token_statistics(chunk.double() / temperature, targets)
                for chunk, targets in zip(
                    logits.split(size), tokens[0, -count:].split(size), strict=True
                )
            ]
        statistics = [torch.cat(part).cpu() for part in zip(*parts, strict=True)]
        if not all(bool(torch.isfinite(values).all()) for values in statistics):
            unused["the model's logits are not finite"] += 1
            continue
        row = torch.full((count,), len(columns))
        columns.append([row, torch.full((count,), advantage, dtype=torch.float64), *statistics])
        restored += marked
    if not columns:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in unused.items())
        raise InputError(f"no row can be used ({reasons})")
    rows, gains, *statistics = (torch.cat(column) for column in zip(*columns, strict=True))
    return Scored(rows, gains, *statistics, restored=restored, unused=unused)


def select_by_micro_batch(
    scored: Scored, positive: Tensor, size: int, top_fraction: float
) -> Tensor:
    """The tokens that would be selected if each `size` rows were a batch of their own.

    It takes exactly `selection_size` tokens of positive advantage of each, the most surprising.

    Returns:
        (tokens,), bool.
    """
    import torch

    from verl_stare.algo.selection import selection_size

    chosen = torch.zeros_like(positive)
    for start in range(0, int(scored.rows.max()) + 1, size):
        inside = positive & (scored.rows >= start) & (scored.rows < start + size)
        places = inside.nonzero().squeeze(-1)
        count = selection_size(len(places), top_fraction)
        chosen[places[scored.surprisal[places].topk(count).indices]] = True
    return chosen


def measure(scored: Scored, top_fraction: float, micro_batches: Sequence[int]) -> dict[str, Any]:
    """All figures of the table. A share of nothing is NaN."""
    from verl_stare.algo import dynamics
    from verl_stare.algo.selection import surprisal_threshold

    statistics = dynamics.TokenStatistics(scored.surprisal, scored.entropy, scored.s2)
    derivative = dynamics.entropy_derivative(scored.advantages, *statistics)
    critical = dynamics.critical_surprisal(scored.entropy, scored.s2)
    positive = scored.advantages > 0
    threshold = surprisal_threshold(scored.surprisal[positive], top_fraction)
    selected = positive & (scored.surprisal > threshold)
    found = dynamics.overlap(selected, scored.advantages, derivative)
    everything = dynamics.overlap(positive, scored.advantages, derivative)
    recovered: dict[str, dict[str, float]] = {}
    for size in micro_batches:
        local = select_by_micro_batch(scored, positive, size, top_fraction)
        share = int((local & selected).sum()) / found.selected if found.selected else math.nan
        recovered[str(size)] = {"selected": int(local.sum()), "recovered": share}
    return {
        "rows": int(scored.rows.max()) + 1,
        "rows_unused": dict(scored.unused),
        "rows_with_chat_markers": scored.restored,
        "tokens": len(positive),
        "tokens_positive": int(positive.sum()),
        "tokens_negative": int((scored.advantages < 0).sum()),
        **{
            f"{name}_{kind}": float(value)
            for name, values in (
                ("entropy", scored.entropy),
                ("surprisal", scored.surprisal),
                ("critical_surprisal", critical),
            )
            for kind, value in (("mean", values.mean()), ("median", values.median()))
        },
        "top_fraction": top_fraction,
        "threshold": threshold,
        "selected": found.selected,
        "raising_positive": found.raising,
        "raising_share_of_positive": everything.precision,
        "raising_share_of_selected": found.precision,
        "selected_share_of_raising": found.recall,
        "selected_share_of_raised_entropy": found.mass,
        "entropy_derivative_mean": float(derivative.mean()),
        "break_even_weight": dynamics.break_even_weight(selected, derivative),
        "micro_batches": recovered,
    }


def table(figures: dict[str, Any]) -> str:
    """The figures of `measure` in plain text."""

    def number(key: str, form: str = ".4f") -> str:
        return f"{figures[key]:>10{form}}" if math.isfinite(figures[key]) else f"{'-':>10}"

    lines = [
        f"rows                    {figures['rows']:>10,}",
        *(
            f"  not used              {count:>10,}  {reason}"
            for reason, count in figures["rows_unused"].items()
        ),
        f"  chat markers put back {figures['rows_with_chat_markers']:>10,}",
        f"response tokens         {figures['tokens']:>10,}",
        f"  positive advantage T+ {figures['tokens_positive']:>10,}",
        f"  negative advantage    {figures['tokens_negative']:>10,}",
        "",
        f"{'nats':<24}{'mean':>10}{'median':>10}",
        *(
            f"  {label:<22}{number(f'{key}_mean')}{number(f'{key}_median')}"
            for label, key in (
                ("entropy H", "entropy"),
                ("surprisal s", "surprisal"),
                ("critical surprisal s*", "critical_surprisal"),
            )
        ),
        "",
        f"top {figures['top_fraction']:.4g} of T+",
        f"  selected              {figures['selected']:>10,}",
        f"  surprisal above       {number('threshold')}  nats",
        f"  truly raising         {number('raising_share_of_selected', '.1%')}"
        f"  of the selected;{number('raising_share_of_positive', '.1%')} of all T+",
        f"  of all raising        {number('selected_share_of_raising', '.1%')}",
        f"  of the raised entropy {number('selected_share_of_raised_entropy', '.1%')}",
        f"mean dH/dη, no weights  {number('entropy_derivative_mean', '.2e')}  nats a token",
        f"  break-even weight     {number('break_even_weight')}",
    ]
    if figures["micro_batches"]:
        lines += ["", f"{'rows a micro-batch':<24}{'selected':>10}{'recovered':>10}"]
    for size, local in figures["micro_batches"].items():
        share = f"{local['recovered']:.1%}" if math.isfinite(local["recovered"]) else "-"
        lines.append(f"  {size:<22}{local['selected']:>10,}{share:>10}")
    return "\n".join(lines)


def _plain(value: Any) -> Any:
    """`value` for JSON, which has no NaN and no infinity: null."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _sizes(text: str) -> list[int]:
    parts = text.split(",") if text else []
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"--micro-batches {text}: must be whole numbers >= 1 between commas")
    return [int(part) for part in parts]


def _run(args: argparse.Namespace) -> None:
    if not 0 < args.top_fraction <= 1:
        raise InputError(f"--top-fraction {args.top_fraction}: must be above 0 and at most 1")
    if not 0 < args.temperature < math.inf:
        raise InputError(f"--temperature {args.temperature}: must be a finite number above 0")
    sizes = _sizes(args.micro_batches)
    if args.json and not args.json.parent.is_dir():
        raise InputError(f"--json {args.json}: {args.json.parent} is not a folder")
    rollouts = read(args.rollouts)
    model, tokenizer = load(args.model, args.device)
    scored = score(model, tokenizer, rollouts, group_advantages(rollouts), args.temperature)
    figures = measure(scored, args.top_fraction, sizes)
    print(table(figures))
    if args.json:
        options = {"model": str(args.model), "rollouts": str(args.rollouts)}
        report = _plain({**options, "temperature": args.temperature, **figures})
        replace_text(args.json, json.dumps(report, indent=2, allow_nan=False) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m verl_stare.overlap",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--model", type=Path, required=True, metavar="DIR", help="Hugging Face folder: the policy")
    add("--rollouts", type=Path, required=True, metavar="FILE", help="the dump of one step")
    add(
        "--top-fraction",
        type=float,
        default=0.1,
        metavar="P",
        help="share of T+ that counts as highly surprising (default %(default)s)",
    )
    add(
        "--temperature",
        type=float,
        default=1.0,
        metavar="T",
        help="that the rollouts were sampled at (default %(default)s)",
    )
    add(
        "--micro-batches",
        default="1,4,16,64",
        metavar="ROWS",
        help="sizes between commas; an empty text for none (default %(default)s)",
    )
    add("--device", default="cpu", help="in torch's words, e.g. cuda:0 (default %(default)s)")
    add("--json", type=Path, metavar="OUT", help="write all figures there too, atomically")
    args = parser.parse_args(argv)
    try:
        _run(args)
    except InputError as error:
        print(f"overlap: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
