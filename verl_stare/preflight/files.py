"""The data files: there, readable, and with the columns that verl and the recipe read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from verl_stare.preflight.findings import Findings, one_line

SAMPLES = "__rollout_n__"
PROMPTS = ("data_source", "reward_model")
# So many rows of a file are tokenised.
TRIED = 64


def check(
    findings: Findings,
    key: str,
    given: object,
    columns: Sequence[str],
    optional: Sequence[str] = (),
) -> list[Path]:
    """Report files that are missing, unreadable, empty or without a column.

    Args:
        findings: to add to.
        key: of the configuration.
        given: its value: a path or a list of them.
        columns: each file must have them.
        optional: all of the files must have one, or none.

    Returns:
        the files that are fine.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = [given] if isinstance(given, str) else list(given or [])  # type: ignore[call-overload]
    if not paths:
        findings.problem(f"{key}={given}: no file")
    fine, having = [], {name: [] for name in optional}
    for text in paths:
        path = Path(str(text)).expanduser()
        if "://" in str(text):
            findings.warn(f"{key}={text}: not on this machine, so not looked into")
            continue
        if not path.is_file():
            findings.problem(f"{key}={text}: no such file (PREPARE=1 makes the recipes' data)")
            continue
        try:
            file = pq.ParquetFile(path)
            names, rows = file.schema_arrow.names, file.metadata.num_rows
        except (OSError, pa.ArrowException) as error:
            findings.problem(f"{key}={text}: not a parquet file: {one_line(error, 200)}")
            continue
        missing = [name for name in columns if name not in names]
        if missing:
            findings.problem(
                f"{key}={text}: no column {', '.join(missing)} (it has {', '.join(names)})"
            )
        elif not rows:
            findings.problem(f"{key}={text}: no row")
        else:
            fine.append(path)
            for name in optional:
                having[name].append(name in names)
    for name, found in having.items():
        if any(found) and not all(found):
            findings.problem(
                f"{key}: some files have {name} and others have not, which verl fails on: list "
                "them apart"
            )
    return fine


def rows(path: Path) -> int:
    """Rows of a parquet file."""
    import pyarrow.parquet as pq

    return pq.read_metadata(path).num_rows


def read_some(path: Path, column: str) -> list[Any]:
    """The first values of a column."""
    import pyarrow.parquet as pq

    batches = pq.ParquetFile(path).iter_batches(TRIED, columns=[column])
    first = next(batches, None)
    return [] if first is None else first.column(0).to_pylist()


def check_prompts(
    findings: Findings, tokenizer: Any, files: Sequence[Path], column: str, longest: int
) -> None:
    """Report a tokenizer without chat template, and files whose prompts do not fit.

    Args:
        findings: to add to.
        tokenizer: the model's.
        files: of prompts.
        column: with the messages.
        longest: data.max_prompt_length, in tokens.
    """
    if not tokenizer.chat_template:
        findings.problem(
            f"{tokenizer.name_or_path}: its tokenizer has no chat template, and verl would leave "
            "out every row: take a chat model's, or put one into tokenizer_config.json"
        )
        return
    for path in files:
        prompts = read_some(path, column)
        try:
            # One at a time, as verl does.
            lengths = [
                len(tokenizer.apply_chat_template(p, add_generation_prompt=True)["input_ids"])
                for p in prompts
            ]
        except Exception as error:  # a template is a program of the model's author
            findings.problem(f"{path}: the chat template fails on {column}: {one_line(error, 200)}")
            continue
        fit = sum(length <= longest for length in lengths)
        if not fit:
            findings.problem(
                f"data.max_prompt_length={longest}: none of the first {len(lengths)} prompts of "
                f"{path} fits (they have {min(lengths)} to {max(lengths)} tokens)"
            )
        elif fit < len(lengths):
            findings.warn(
                f"data.max_prompt_length={longest}: {len(lengths) - fit} of the first "
                f"{len(lengths)} prompts of {path} are longer and would be left out"
            )
