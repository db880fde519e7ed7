"""Read prepared files as verl will, with your tokenizer: each of them, and all together."""

import argparse
import contextlib
import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # run as a file: modules are in the checkout, not in this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import pyarrow as pa
import pyarrow.parquet as pq

from data_prep.schema import SAMPLES

EXAMPLES = """\
examples:
  python -m data_prep.check --tokenizer Qwen/Qwen2.5-Math-7B data/dapo_math/train.parquet
  python -m data_prep.check --tokenizer models/mine data/eval/*/test.parquet

Prompt files go through verl's RLHFDataset, files with messages through its MultiTurnSFTDataset.

exit codes: 0 verl reads every row; 1 it does not (one line says what is wrong); 2 wrong usage."""


class CheckError(Exception):
    """What verl would trip over, in one line."""


def check_tokenizer(tokenizer: Any, name: str) -> None:
    """Raise a `CheckError` if `tokenizer` has no chat template."""
    if not tokenizer.chat_template:
        raise CheckError(
            f"tokenizer {name} has no chat template: verl would leave out every row, silently. "
            "Take the tokenizer of a chat model, or put a template into tokenizer_config.json"
        )


def check_prompts(files: Sequence[Path], tokenizer: Any, most: int) -> list[str]:
    """Read prompt files through verl's RLHFDataset, each and all together.

    Args:
        most: data.max_prompt_length, in tokens.

    Returns:
        what to say.

    Raises:
        CheckError: verl reads a file not at all, or leaves out rows.
    """
    lines = []
    for file in files:
        rows = _through_verl([file], tokenizer, most)
        kind = "validation" if SAMPLES in pq.read_schema(file).names else "training"
        lines.append(f"{file}: verl reads {rows} rows, for {kind}")
    if len(files) > 1:
        rows = _through_verl(files, tokenizer, most)
        lines.append(f"together: verl reads {rows} rows")
        with_samples = [SAMPLES in pq.read_schema(file).names for file in files]
        if any(with_samples) and not all(with_samples):
            lines.append(
                f"note: only some have {SAMPLES}, and verl's V1 trainer fails on a row without one "
                "where others have it: list them apart, in data.train_files and data.val_files"
            )
    return lines


def _through_verl(files: Sequence[Path], tokenizer: Any, most: int) -> int:
    from datasets.exceptions import DatasetGenerationError
    from omegaconf import OmegaConf
    from verl.utils.dataset.rl_dataset import RLHFDataset

    named = ", ".join(map(str, files))
    config = OmegaConf.create(
        {
            "max_prompt_length": most,
            "filter_overlong_prompts": True,
            "filter_overlong_prompts_workers": None,
        }
    )
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            dataset = RLHFDataset([str(file) for file in files], tokenizer, config)
    except (ValueError, TypeError, KeyError, OSError, pa.ArrowException) as error:
        raise CheckError(f"{named}: verl cannot read it: {_one_line(error)}") from error
    except DatasetGenerationError as error:
        cause = error.__cause__ or error
        raise CheckError(f"{named}: verl cannot read it: {_one_line(cause)}") from error
    rows = sum(pq.read_metadata(file).num_rows for file in files)
    if "Traceback" in said.getvalue():
        last = [line for line in said.getvalue().splitlines() if line.strip()][-1]
        raise CheckError(
            f"{named}: verl leaves out rows that its tokenizer fails on, such as: {last}"
        )
    if len(dataset) != rows:
        raise CheckError(
            f"{named}: {rows - len(dataset)} of {rows} prompts are longer than {most} tokens, "
            "and verl leaves them out: raise data.max_prompt_length (here --max-prompt-length)"
        )
    if not rows:
        raise CheckError(f"{named}: no row")
    for place in range(rows):
        _check_row(dataset[place], named, place)
    return rows


def _check_row(row: dict[str, Any], named: str, place: int) -> None:
    """Raise a `CheckError` if verl gets None where it needs a value."""
    empty = [
        name
        for name in ("data_source", "agent_name", "tools_kwargs", "index")
        if name in row and row[name] is None
    ]
    if not row["reward_model"]["ground_truth"]:
        empty.append("reward_model.ground_truth")
    if empty:
        raise CheckError(f"{named}: row {place} has no {', '.join(empty)}")


def check_conversations(files: Sequence[Path], tokenizer: Any, most: int) -> list[str]:
    """Read files with messages through verl's MultiTurnSFTDataset, every row.

    Args:
        most: data.max_length, in tokens.

    Returns:
        what to say.

    Raises:
        CheckError: verl fails on a row.
    """
    from omegaconf import OmegaConf
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    lines = []
    config = OmegaConf.create({"max_length": most, "truncation": "error", "pad_mode": "no_padding"})
    for file in files:
        place = None
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                dataset = MultiTurnSFTDataset([str(file)], tokenizer, config)
            for place in range(len(dataset)):
                if not dataset[place]["loss_mask"].any():
                    raise CheckError(f"{file}: row {place} has no token to learn")
        except (ValueError, TypeError, KeyError, AssertionError, OSError) as error:
            where = "" if place is None else f" row {place}"
            raise CheckError(f"{file}: verl cannot read it{where}: {_one_line(error)}") from error
        lines.append(f"{file}: verl reads {len(dataset)} conversations")
    return lines


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


def _columns(file: Path) -> list[str]:
    try:
        return pq.read_schema(file).names
    except (OSError, pa.ArrowException) as error:
        raise CheckError(f"{file}: cannot be read: {_one_line(error)}") from error


def check(files: Sequence[Path], tokenizer_name: str, prompt_length: int, length: int) -> list[str]:
    """Check `files` with the tokenizer of this name or folder.

    Returns:
        what to say.

    Raises:
        CheckError: something is wrong.
    """
    prompts, conversations = [], []
    for file in files:
        columns = _columns(file)
        if "prompt" in columns:
            prompts.append(file)
        elif "messages" in columns:
            conversations.append(file)
        else:
            raise CheckError(f"{file}: columns {', '.join(columns)}: neither prompt nor messages")
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(tokenizer_name)
    except (OSError, ValueError) as error:
        raise CheckError(f"tokenizer {tokenizer_name}: {_one_line(error)}") from error
    check_tokenizer(tokenizer, tokenizer_name)
    from datasets import config as cache_config

    lines = []
    with tempfile.TemporaryDirectory() as cache:
        # Else every file that is checked stays in the user's cache as a copy.
        before = cache_config.HF_DATASETS_CACHE
        cache_config.HF_DATASETS_CACHE = Path(cache)
        try:
            if prompts:
                lines += check_prompts(prompts, tokenizer, prompt_length)
            if conversations:
                lines += check_conversations(conversations, tokenizer, length)
        finally:
            cache_config.HF_DATASETS_CACHE = before
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Check the files of the command line; exits like a command."""
    parser = argparse.ArgumentParser(
        prog="check.py",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="parquet files")
    parser.add_argument("--tokenizer", required=True, help="hub id or local folder of the model")
    parser.add_argument(
        "--max-prompt-length", type=int, default=1024, help="data.max_prompt_length (default 1024)"
    )
    parser.add_argument(
        "--max-length", type=int, default=16384, help="data.max_length of SFT (default 16384)"
    )
    args = parser.parse_args(arguments)
    try:
        lines = check(args.files, args.tokenizer, args.max_prompt_length, args.max_length)
    except CheckError as error:
        sys.exit(f"{parser.prog}: error: {error}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
