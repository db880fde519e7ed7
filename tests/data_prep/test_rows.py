"""What each set's `to_row` makes of a row in the columns of the hub's set and of its copies."""

import json
from typing import Any

import pyarrow as pa
import pytest

from data_prep import train_mix
from data_prep.evaluation import DATA_SOURCES
from data_prep.olympiadbench import all_of
from data_prep.schema import SCHEMA, TOOL, Asking, Rejected
from tests.data_prep.support import (
    ASKING,
    DAPO,
    EVALUATION,
    dapo_item,
    dataset,
    evaluation_item,
    to_row,
)


def gold(row: dict[str, Any]) -> str:
    return row["reward_model"]["ground_truth"]


def test_a_row_is_as_verl_wants_it() -> None:
    row = to_row("gsm8k", {"question": " How many? \n", "answer": "12 and 3.\n#### 1,015"})
    assert row == {
        "data_source": "openai/gsm8k",
        "prompt": [
            {
                "role": "user",
                "content": "How many?\nPlease reason step by step, and put your final answer "
                "within \\boxed{}.",
            }
        ],
        "ability": "math",
        "agent_name": "single_turn_agent",
        "reward_model": {"style": "rule", "ground_truth": "1015"},
        "extra_info": {
            "index": 7,
            "split": "train",
            "id": "",
            "problem": "How many?",
            "unit": None,
            "tolerance": None,
            "copies": 1,
            "need_tools_kwargs": False,
            "tools_kwargs": {"code_interpreter": {"create_kwargs": {"index": 7}}},
        },
    }
    assert pa.Table.from_pylist([row], schema=SCHEMA).to_pylist() == [row]


def test_template_system_prompt_and_agent_are_the_users() -> None:
    asking = Asking("Q: {problem}\nA:", "Be brief.", TOOL)
    item = {"question": "{problem}?", "answer": "#### -5"}
    row = dataset("gsm8k").to_row(item, 0, "test", asking)
    assert row["prompt"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Q: {problem}?\nA:"},
    ]
    assert (row["agent_name"], row["extra_info"]["need_tools_kwargs"]) == ("stare_tool_agent", True)
    for template in ("no place", "{problem} {problem}"):
        with pytest.raises(ValueError, match="exactly once"):
            Asking(template)
    with pytest.raises(ValueError, match="allowed are single_turn_agent, stare_tool"):
        Asking(agent_name="other")


@pytest.mark.parametrize("name", EVALUATION)
def test_evaluation_sets(name: str) -> None:
    row = to_row(name, evaluation_item(name, 3), "test")
    assert gold(row) == "13"
    assert row["extra_info"]["problem"].startswith("In a box lie ")
    assert row["data_source"] == DATA_SOURCES[name]


@pytest.mark.parametrize("name", EVALUATION)
def test_evaluation_sets_in_verls_schema(name: str) -> None:
    text = "How many? Let's think step by step and output the final answer within \\boxed{}."
    item = {
        "data_source": "",
        "prompt": [{"content": text, "role": "user"}],
        "reward_model": {"ground_truth": 27.0, "style": "rule"},
    }
    row = to_row(name, item, "test")
    assert (row["extra_info"]["problem"], gold(row)) == ("How many?", "27")


def test_aime24_copies() -> None:
    assert gold(to_row("aime24", {"ID": "2024-I-1", "Problem": "How?", "Answer": 73})) == "73"
    assert gold(to_row("aime24", {"id": 1, "problem": "How?", "answer": "073"})) == "73"
    boxed = {"problem": "How?", "solution": "first \\boxed{1}, so \\boxed{025}"}
    assert gold(to_row("aime24", boxed)) == "25"


def test_minerva_from_the_solution() -> None:
    solution = "Some text.\n\\[\nL=\\boxed{4.5e33} \\mathrm{erg} \\mathrm{~s}^{-1}\n\\]"
    row = to_row("minerva_math", {"problem": "How far?", "solution": solution, "idx": 5})
    assert gold(row) == "4.5e33"
    assert row["extra_info"]["unit"] == "\\mathrm{erg} \\mathrm{~s}^{-1}"
    assert row["extra_info"]["id"] == "5"
    row = to_row("minerva_math", {"problem": "How far?", "solution": "It is $\\boxed{2}$ years."})
    assert (gold(row), row["extra_info"]["unit"]) == ("2", None)
    with pytest.raises(Rejected, match="boxed"):
        to_row("minerva_math", {"problem": "How far?", "solution": "It is 2."})


def test_minervas_several_forms_are_alternatives() -> None:
    item = {"prompt": "How far?", "reward_model": {"ground_truth": ["9.6\n", "9.6", "48/5\n"]}}
    assert json.loads(gold(to_row("minerva_math", item))) == ["9.6", "48/5"]


def test_olympiadbench() -> None:
    item = evaluation_item("olympiadbench", 1) | {
        "context": "Read this.",
        "question": "How many?",
        "final_answer": ["$4.2$"],
        "error": "1e-1",
        "unit": "%",
    }
    row = to_row("olympiadbench", item, "test")
    assert row["extra_info"]["problem"] == "Read this.\n\nHow many?"
    assert gold(row) == "4.2"
    assert (row["extra_info"]["tolerance"], row["extra_info"]["unit"]) == (0.1, "%")
    several = item | {"final_answer": ["$10$,$200$"], "is_multiple_answer": True, "error": ""}
    row = to_row("olympiadbench", several, "test")
    # All are asked for, so this is one gold, and not the number 10200.
    assert (gold(row), row["extra_info"]["tolerance"]) == ("10, 200", None)
    with pytest.raises(Rejected, match="tolerance"):
        to_row("olympiadbench", item | {"error": "some"}, "test")


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ("1,3,5", "1, 3, 5"),
        ("2400,  1350", "2400, 1350"),
        ("$(6,3),(9,\\frac{1}{2})$", "(6,3), (9,\\frac{1}{2})"),
        ("$a=2$, $a=-6$", "a=2, a=-6"),
        ("$221,$8$", "221, 8"),
        ("\\$5,\\$6", "\\$5, \\$6"),
    ],
)
def test_all_of_several_answers(answers: str, text: str) -> None:
    assert all_of(answers) == text


def test_gsm8k_without_its_mark_is_rejected() -> None:
    for answer in ("72", None):
        with pytest.raises(Rejected, match="####"):
            to_row("gsm8k", {"question": "How many?", "answer": answer})


def test_math_has_its_gold_in_the_solution_and_copies_in_a_column() -> None:
    item = {"problem": "How many?", "solution": "$\\boxed{\\frac{1}{2}}$", "level": "Level 1"}
    assert gold(to_row("math_train", item)) == "\\frac{1}{2}"
    assert gold(to_row("math_train", {"problem": "How many?", "answer": "98"})) == "98"
    with pytest.raises(Rejected, match="no answer"):
        to_row("math_train", {"problem": "How many?", "answer": None})
    with pytest.raises(Rejected, match="boxed"):
        to_row("math_train", {"problem": "How many?", "solution": "half"})


def test_dapo_in_its_forms() -> None:
    row = to_row("dapo_math", dapo_item("How many?\n", "034", "a-uuid"))
    assert row["extra_info"]["problem"] == "How many?"
    assert (gold(row), row["extra_info"]["id"], row["extra_info"]["index"]) == ("34", "a-uuid", 7)
    cleaned = {"prompt": "How many?", "target": "34", "ability": "MATH"}
    processed = {
        "prompt": "How many?",
        "solution": "34",
        "source_prompt": dapo_item("How many?", "34")["prompt"],
        "reward_model": {"ground_truth": "34", "style": "rule"},
        "extra_info": {"index": "a-uuid"},
    }
    for item in (cleaned, processed, {"prompt": "How many?", "solution": 34}):
        assert gold(to_row("dapo_math", item)) == "34"
        assert to_row("dapo_math", item)["extra_info"]["problem"] == "How many?"


def test_tool_rows_name_agent_and_tool() -> None:
    tools = dataset("tool_math")
    asking = Asking(agent_name=tools.agent_name)
    row = tools.to_row(dapo_item("How many?", "34"), 3, "train", asking)
    assert row["agent_name"] == "stare_tool_agent"
    assert row["extra_info"]["need_tools_kwargs"] is True
    assert row["extra_info"]["tools_kwargs"]["code_interpreter"]["create_kwargs"] == {"index": 3}


def test_the_mix() -> None:
    skywork = {
        "data_source": "train-math-deepscaler",
        "prompt": [{"content": "How many?", "role": "user"}],
        "reward_model": {"ground_truth": '["\\\\frac{1}{2}", "0.5"]', "style": "rule"},
        "extra_info": {"index": 4, "model_difficulty": {"7B": 3}},
    }
    row = train_mix.skywork_row(skywork, 0, "train", ASKING)
    assert json.loads(gold(row)) == ["\\frac{1}{2}", "0.5"]
    one = skywork | {"reward_model": {"ground_truth": '["27.0"]', "style": "rule"}}
    assert gold(train_mix.skywork_row(one, 0, "train", ASKING)) == "27"
    item = {"problem": "How many?", "answer": "3/2", "solution": "", "difficulty": "1/8"}
    assert gold(train_mix.deepscaler_row(item, 0, "train", ASKING)) == "3/2"
    assert gold(train_mix.polaris_row(item, 0, "train", ASKING)) == "3/2"
    with pytest.raises(Rejected, match="no answer"):
        train_mix.deepscaler_row(item | {"answer": ""}, 0, "train", ASKING)


@pytest.mark.parametrize(
    ("answer", "golds"),
    [
        ("\\boxed{1700}", "1700"),
        ("\\(\\boxed{077}\\)", "77"),
        ("\\[ 2047 \\]", "2047"),
        ("\\(a\\) and \\(b\\)", "\\(a\\) and \\(b\\)"),
        ("\\boxed{1} or \\boxed{2}", "\\boxed{1} or \\boxed{2}"),
        ("[1, 2]", "[1, 2]"),
        ("[0,1)", "[0,1)"),
        ('["1/2", "\\\\boxed{0.5}"]', '["1/2", "0.5"]'),
        (-3, "-3"),
        (0.25, "0.25"),
        ([1.0, "1", "x"], '["1", "x"]'),
    ],
)
def test_golds_of_any_type_are_one_text(answer: Any, golds: str) -> None:
    assert gold(to_row("dapo_math", {"prompt": "How?", "target": answer})) == golds


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"prompt": " \n", "target": "1"}, "no problem"),
        ({"prompt": DAPO[0] + DAPO[1], "target": "1"}, "no problem"),
        ({"prompt": None, "target": "1"}, "no problem"),
        ({"prompt": 5, "target": "1"}, "problem is not text"),
        ({"prompt": [], "target": "1"}, "prompt is not one user message"),
        ({"prompt": [{"role": "assistant", "content": "x"}], "target": "1"}, "not one user"),
        ({"prompt": "How?", "target": " "}, "no answer"),
        ({"prompt": "How?", "target": None}, "no answer"),
        ({"prompt": "How?", "target": []}, "no answer"),
        ({"prompt": "How?", "target": {"a": 1}}, "answer is not text"),
        ({"prompt": "How?", "target": True}, "answer is not text"),
    ],
)
def test_what_is_no_problem_or_no_answer_is_rejected(item: dict[str, Any], reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        to_row("dapo_math", item)
