"""Every kind of file goes through verl's own loaders, alone and with all others."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_prep.check import CheckError, check, main
from tests.data_prep.support import (
    EVALUATION,
    RETOOL_SOLUTION,
    dapo_item,
    prepare,
    retool_item,
    write_jsonl,
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, evaluation: Path) -> Path:
    """One file of every kind that data_prep writes."""
    folder = tmp_path_factory.mktemp("prepared")
    problems = [{"question": f"What is {n}?", "answer": f"#### {n}"} for n in range(3)]
    raw = folder / "raw"
    write_jsonl(raw / "gsm8k" / "train.jsonl", problems)
    write_jsonl(raw / "gsm8k" / "test.jsonl", problems)
    write_jsonl(
        raw / "math" / "train.jsonl",
        [{"problem": f"What is {n}?", "solution": f"\\boxed{{{n}}}"} for n in range(3)],
    )
    dapo = write_jsonl(raw / "dapo.jsonl", [dapo_item(f"What is {n}?", str(n)) for n in range(3)])
    sft = write_jsonl(raw / "sft.jsonl", [retool_item(RETOOL_SOLUTION)])
    off = "--no-decontaminate"
    prepare("gsm8k", raw / "gsm8k", folder / "gsm8k", off)
    prepare("math_train", raw / "math", folder / "math_train", off)
    prepare("dapo_math", dapo, folder / "dapo_math", off, "--system-prompt", "Be brief.")
    prepare("tool_math", dapo, folder / "tool_math", off)
    prepare("retool_sft", sft, folder / "retool_sft", off)
    return folder


def prompt_files(prepared: Path, evaluation: Path, arithmetic: Path) -> list[Path]:
    names = ("gsm8k", "math_train", "dapo_math", "tool_math")
    files = [prepared / name / "train.parquet" for name in names]
    files += [prepared / "gsm8k" / "test.parquet", arithmetic / "train.parquet"]
    return files + [evaluation / name / "test.parquet" for name in EVALUATION]


@pytest.fixture(scope="module")
def arithmetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from data_prep.arithmetic import prepare as make

    folder = tmp_path_factory.mktemp("arithmetic")
    make(folder, seed=1, train_size=4, test_size=2, row_group_size=2)
    return folder


def test_every_file_and_all_of_them_together(
    prepared: Path, evaluation: Path, arithmetic: Path, tokenizer: Path
) -> None:
    files = prompt_files(prepared, evaluation, arithmetic)
    lines = check([*files, prepared / "retool_sft" / "train.parquet"], str(tokenizer), 1024, 2048)
    rows = {str(file): pq.read_metadata(file).num_rows for file in files}
    assert lines[: len(files)] == [
        f"{file}: verl reads {n} rows, for {'validation' if 'test.parquet' in file else 'training'}"
        for file, n in rows.items()
    ]
    assert lines[len(files)] == f"together: verl reads {sum(rows.values())} rows"
    assert "list them apart, in data.train_files and data.val_files" in lines[len(files) + 1]
    assert lines[-1].endswith("retool_sft/train.parquet: verl reads 1 conversations")


def test_rows_reach_the_agent_loop_whole(prepared: Path, evaluation: Path, tokenizer: Path) -> None:
    from omegaconf import OmegaConf
    from transformers import AutoTokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    files = [prepared / "tool_math/train.parquet", prepared / "dapo_math/train.parquet"]
    config = OmegaConf.create({"filter_overlong_prompts": False})
    loaded = AutoTokenizer.from_pretrained(tokenizer)
    batch = collate_fn(list(RLHFDataset([str(file) for file in files], loaded, config)))
    assert list(batch["agent_name"]) == ["stare_tool_agent"] * 3 + ["single_turn_agent"] * 3
    assert list(batch["index"]) == [0, 1, 2, 0, 1, 2]
    for number, kwargs in enumerate(batch["tools_kwargs"]):
        # As ToolAgentLoop takes it; it must hold for rows without tools too.
        assert kwargs.get("code_interpreter", {}).get("create_kwargs", {}) == {"index": number % 3}
    assert "__rollout_n__" not in batch
    files = [evaluation / name / "test.parquet" for name in ("aime24", "math500")]
    batch = collate_fn(list(RLHFDataset([str(file) for file in files], loaded, config)))
    assert list(batch["__rollout_n__"]) == [32] * 4 + [4] * 4


def test_a_conversation_is_learnt_where_the_model_speaks(prepared: Path, tokenizer: Path) -> None:
    from omegaconf import OmegaConf
    from transformers import AutoTokenizer
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    loaded = AutoTokenizer.from_pretrained(tokenizer)
    config = OmegaConf.create({"max_length": 4096, "pad_mode": "no_padding"})
    file = str(prepared / "retool_sft" / "train.parquet")
    [row] = [MultiTurnSFTDataset([file], loaded, config)[0]]
    learnt = loaded.decode(row["input_ids"][row["loss_mask"].bool()])
    call = '<tool_call>\n{"name": "code_interpreter", "arguments": {"code": "print(6 * 7)"}}'
    assert call in learnt
    assert "\\boxed{42}" in learnt
    assert "What is 6 times 7?" not in learnt
    whole = loaded.decode(row["input_ids"])
    assert "What is 6 times 7?" in whole
    assert "<|im_start|>tool\n42<|im_end|>" in whole
    assert "A tool for executing Python code." in whole


def test_a_tokenizer_without_chat_template_is_an_error(
    prepared: Path, plain_tokenizer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(prepared / "dapo_math" / "train.parquet")
    with pytest.raises(SystemExit) as exit:
        main(["--tokenizer", str(plain_tokenizer), file])
    assert "has no chat template: verl would leave out every row" in str(exit.value.code)
    assert capsys.readouterr().out == ""


def test_verl_itself_says_nothing_of_it(prepared: Path, plain_tokenizer: Path) -> None:
    """What the check is for; once verl raises here, the check can go."""
    from omegaconf import OmegaConf
    from transformers import AutoTokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset

    config = OmegaConf.create(
        {"filter_overlong_prompts": True, "filter_overlong_prompts_workers": None}
    )
    loaded = AutoTokenizer.from_pretrained(plain_tokenizer)
    file = str(prepared / "dapo_math" / "train.parquet")
    assert len(RLHFDataset([file], loaded, config)) == 0


def refused(files: list[Path], tokenizer: Path, most: int = 1024) -> str:
    with pytest.raises(CheckError) as error:
        check(files, str(tokenizer), most, 64)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_verl_would_trip_over(prepared: Path, tokenizer: Path, tmp_path: Path) -> None:
    good = prepared / "dapo_math" / "train.parquet"
    table = pq.read_table(good)
    assert "3 of 3 prompts are longer than 5 tokens" in refused([good], tokenizer, 5)
    assert "row 0: ValueError" in refused([prepared / "retool_sft/train.parquet"], tokenizer)

    none = tmp_path / "none.parquet"
    pq.write_table(table.slice(0, 0), none)
    assert "none.parquet" in refused([none], tokenizer)

    index = table["extra_info"].combine_chunks().field("index").cast(pa.string())
    text = pa.StructArray.from_arrays([index], names=["index"])
    other = tmp_path / "text_index.parquet"
    column = table.schema.get_field_index("extra_info")
    pq.write_table(table.set_column(column, "extra_info", text), other)
    assert "verl cannot read it" in refused([good, other], tokenizer)

    half = tmp_path / "half.parquet"
    pq.write_table(table.drop_columns(["agent_name"]), half)
    assert "has no agent_name" in refused([good, half], tokenizer)

    broken = tmp_path / "broken.parquet"
    broken.write_bytes(good.read_bytes()[:-30])
    assert "broken.parquet: cannot be read" in refused([broken], tokenizer)
    assert "cannot be read" in refused([tmp_path / "missing.parquet"], tokenizer)
    rejected = refused([prepared / "dapo_math" / "rejected.parquet"], tokenizer)
    assert "neither prompt nor messages" in rejected
    assert "tokenizer" in refused([good], tmp_path / "no_tokenizer")
