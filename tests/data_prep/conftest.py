"""Prepared evaluation sets, and a tokenizer with a chat template that knows tools."""

from pathlib import Path

import pytest

from tests.data_prep.support import EVALUATION, evaluation_item, prepare, write_jsonl

CHAT_TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}"
    "<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{% for call in message.tool_calls or [] %}\n<tool_call>\n"
    '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}\n'
    "</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="session")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as data/eval, with four made-up problems a set."""
    folder = tmp_path_factory.mktemp("eval")
    for name in EVALUATION:
        rows = [evaluation_item(name, number) for number in range(4)]
        source = write_jsonl(folder / "raw" / f"{name}.jsonl", rows)
        prepare(name, source, folder / "eval" / name)
    return folder / "eval"


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level tokenizer with a chat template."""
    return _save(tmp_path_factory.mktemp("tokenizer"), CHAT_TEMPLATE)


@pytest.fixture(scope="session")
def plain_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without a chat template."""
    return _save(tmp_path_factory.mktemp("plain_tokenizer"), None)


def _save(folder: Path, template: str | None) -> Path:
    import tiny_model

    tokenizer = tiny_model.build_tokenizer([[{"role": "user", "content": "How many? How many?"}]])
    tokenizer.chat_template = template
    tokenizer.model_max_length = 100_000
    tokenizer.save_pretrained(folder)
    return folder
