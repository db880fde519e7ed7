"""ReTool's solutions become conversations with tool calls, or are rejected with the reason."""

from pathlib import Path

import pytest

from data_prep.retool_sft import turns
from data_prep.schema import Rejected
from tests.data_prep.support import (
    RETOOL_PROMPT,
    RETOOL_SOLUTION,
    Output,
    evaluation_item,
    prepare,
    retool_item,
    to_row,
    write_parquet,
)


def said(role: str, content: str, code: str | None = None) -> dict[str, object]:
    call = {"name": "code_interpreter", "arguments": {"code": code}}
    calls = None if code is None else [{"type": "function", "function": call}]
    return {"role": role, "content": content, "tool_calls": calls}


def test_a_solution_becomes_a_conversation() -> None:
    row = to_row("retool_sft", retool_item(RETOOL_SOLUTION))
    assert row["messages"] == [
        said(
            "user",
            "What is 6 times 7?\nPlease reason step by step, and put your final answer within "
            "\\boxed{}.",
        ),
        said("assistant", "Let me compute it.", "print(6 * 7)"),
        said("tool", "42"),
        said("assistant", "And once more.", "x = 6 * 7\nprint(x)"),
        said("tool", "42"),
        said("assistant", "So it is 42.\n\n\\boxed{42}"),
    ]
    assert row["tools"][0]["function"]["name"] == "code_interpreter"
    assert row["extra_info"]["problem"] == "What is 6 times 7?"


@pytest.mark.parametrize(
    ("prompt", "problem"),
    [
        (RETOOL_PROMPT, "What is 6 times 7?"),
        ("Other words.\n*user question:*\n\nWhat is 1?", "What is 1?"),
        ("What is 1?", "What is 1?"),
    ],
)
def test_no_fixed_instruction_is_needed(prompt: str, problem: str) -> None:
    row = to_row("retool_sft", retool_item("It is \\boxed{1}.", prompt))
    assert row["extra_info"]["problem"] == problem
    assert row["messages"][-1] == said("assistant", "It is \\boxed{1}.")


def test_code_keeps_its_shape() -> None:
    code = "if True:\n    print('```')  # <answer>\n\n    print(1)"
    solution = f"<code>\n```python\n{code}\n```\n</code>\n<interpreter></interpreter>\nSo 1."
    assert turns(solution) == [
        said("assistant", "", code),
        said("tool", ""),
        said("assistant", "So 1."),
    ]
    indented = "<code>\n    x = 1\n</code><interpreter>1</interpreter>Done"
    assert turns(indented)[0] == said("assistant", "", "    x = 1")


def test_a_fence_is_code_only_if_its_output_follows() -> None:
    fence = "```python\nprint(1)\n```"
    ran = f"I run\n{fence}\n<interpreter>\n1\n</interpreter>\nDone, as\n{fence}\nsaid."
    assert turns(ran) == [
        said("assistant", "I run", "print(1)"),
        said("tool", "1"),
        said("assistant", f"Done, as\n{fence}\nsaid."),
    ]


@pytest.mark.parametrize(
    ("solution", "reason"),
    [
        ("<code>print(1)</code> and no output", "code without output"),
        ("<code>print(1)</code>", "code without output"),
        ("<code>a</code><code>b</code><interpreter>1</interpreter>x", "code without output"),
        ("<interpreter>1</interpreter> So 1.", "output without code"),
        ("<code>a</code> then <interpreter>1</interpreter> x", "output without code"),
        ("<code>a</code><interpreter>1</interpreter>", "nothing is said at the end"),
        ("<code>a</code><interpreter>1</interpreter><answer></answer>", "nothing is said"),
        ("<code> </code><interpreter>1</interpreter>x", "empty code"),
        ("<code>print(1)", "a block is not closed"),
        ("print(1)</code>", "a block is not closed"),
        ("<code>a</code><interpreter>1", "a block is not closed"),
        ("", "nothing is said at the end"),
    ],
)
def test_what_does_not_parse_is_rejected(solution: str, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        to_row("retool_sft", retool_item(solution))


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [],
        [{"role": "user", "content": "a"}],
        [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}],
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": None}],
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}] * 2,
    ],
)
def test_other_messages_are_rejected(messages: object) -> None:
    with pytest.raises(Rejected):
        to_row("retool_sft", {"messages": messages})


def test_a_run(evaluation: Path, tmp_path: Path) -> None:
    contaminated = "*user question:*\n" + evaluation_item("aime25", 2)["problem"]
    items = [
        retool_item(RETOOL_SOLUTION),
        retool_item(RETOOL_SOLUTION.replace("And once more.", "Again.")),  # no duplicate
        retool_item(RETOOL_SOLUTION.replace("And once", "And  once")),
        retool_item("<code>print(1)"),
        retool_item("It is 12.", contaminated),
        retool_item(RETOOL_SOLUTION),
    ]
    source = write_parquet(tmp_path / "train_2000.parquet", items)
    prepare("retool_sft", source, tmp_path / "out", "--against", str(evaluation))
    output = Output(tmp_path / "out")
    assert [row["extra_info"]["index"] for row in output.rows()] == [0, 1]
    assert output.rows()[0]["extra_info"]["copies"] == 2
    assert [(row["index"], row["reason"]) for row in output.rows("rejected")] == [
        (2, "duplicate"),
        (3, "a block is not closed"),
        (4, "overlaps an evaluation item"),
    ]
