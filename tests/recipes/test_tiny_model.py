"""The demo's tokenizer, worked solutions and reward."""

import random
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

import tiny_model
import warm_start
from reward import compute_score

PROMPTS = [
    [{"role": "user", "content": f"Calculate {a} + {b} + 10 + 0."}]
    for a in range(10)
    for b in range(10)
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained for two steps, saved as the demo saves it."""
    out = tmp_path_factory.mktemp("model") / "model"
    tokenizer = tiny_model.build_tokenizer(PROMPTS)
    model = tiny_model.build_model(tokenizer, seed=1)
    warm_start.train(model, tokenizer, PROMPTS, steps=2, noise=0.2, seed=1)
    tiny_model.save(out, model, tokenizer, {"made": "here"})
    return out


@pytest.fixture
def tokenizer(saved: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(saved)


@pytest.mark.parametrize("text", ["4+10=14;14\n", "né ☃ 🙂\t\\", "12345", ""])
def test_any_text_survives_the_reloaded_tokenizer(
    tokenizer: PreTrainedTokenizerBase, text: str
) -> None:
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_digits_are_single_tokens(tokenizer: PreTrainedTokenizerBase) -> None:
    assert len(tokenizer("4017")["input_ids"]) == 4


def test_the_chat_template_ends_where_the_answer_begins(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    text = tokenizer.apply_chat_template(PROMPTS[0], add_generation_prompt=True, tokenize=False)
    assert text == (
        "<|im_start|>user\nCalculate 0 + 0 + 10 + 0.<|im_end|>\n<|im_start|>assistant\n"
    )


def test_the_model_loads_and_stops_at_the_end_token(saved: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(saved)
    tokenizer = AutoTokenizer.from_pretrained(saved)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert model.config.vocab_size >= len(tokenizer)


def test_a_folder_that_is_not_a_model_of_ours_is_kept(tmp_path: Path, saved: Path) -> None:
    (tmp_path / "precious").write_text("x")
    with pytest.raises(FileExistsError):
        tiny_model.check_replaceable(tmp_path)
    tiny_model.check_replaceable(saved)


def test_worked_solutions_without_noise_are_right_and_vary() -> None:
    rng = random.Random(0)
    solutions = {warm_start.worked_solution([4, 7, 1, 10], 0.0, rng) for _ in range(200)}
    assert len(solutions) > 50
    for solution in solutions:
        *steps, answer = solution.split(";")
        assert answer == "22"
        for step in steps:
            left, right = step.split("=")
            assert sum(map(int, left.split("+"))) == int(right)


def test_noise_spoils_about_as_many_answers_as_it_should() -> None:
    rng = random.Random(0)
    answers = [
        warm_start.worked_solution([4, 7, 1, 10], 0.2, rng).rsplit(";", 1)[-1] for _ in range(2000)
    ]
    # Three sums, each right with 0.8; two errors cancel now and then.
    assert answers.count("22") / 2000 == pytest.approx(0.8**3, abs=0.06)


@pytest.mark.parametrize(
    ("solution", "score"),
    [
        ("4+7=11;11+1=12;12", 1.0),
        ("9;12 ", 1.0),
        ("12", 1.0),
        ("12;13", 0.0),
        ("", 0.0),
        ("012", 0.0),
    ],
)
def test_the_reward_reads_what_follows_the_last_semicolon(solution: str, score: float) -> None:
    result = compute_score("reasoning_gym/basic_arithmetic", solution, "12", None, extra=1)
    assert result["score"] == result["acc"] == score
    assert isinstance(result["pred"], str)
