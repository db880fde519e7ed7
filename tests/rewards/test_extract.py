"""What a response answers."""

import pytest

from verl_stare.rewards.extract import extract_answer, own_text


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("#### 18", "18"),
        ("#### $18", "$18"),
        ("6 * 3 = 18\n#### 18.", "18."),
        ("Answer: 34", "34"),
        ("**Answer:** 34", "34"),
        ("**Answer**: 34", "34"),
        ("Final Answer: $34$", "$34$"),
        (r"Answer: \(34\)", r"\(34\)"),
        ("Answer: 34. I hope it is correct.", "34"),
        ("The answer is 3.5 because of that.", "3.5 because of that."),
        ("The answer is $3.5$ because of that.", "$3.5$"),
        ("The final answer is: **12**", "12"),
        ("<answer> 7 </answer>", "7"),
        ("<answer>6</answer> no, <answer>7</answer>", "7"),
        (r"<answer>\boxed{7}</answer>", "7"),
        ("Answer: 5\nAnswer: 6", "6"),
        ("答案：42", "42"),
        ("Answer:\n5", "5"),
        (r"<tool_call>{'code': '\boxed{5}'}</tool_call> so \boxed{3}<tool_call>x", "3"),
        ("<tool_call>print('\\boxed{5}', '</tool_call>')</tool_call>\n#### 3", "3"),
        (r"<tool_call> \boxed{3}", "3"),
        ("**Final Answer**\n\n5", "5"),
        ("**Final Answer**\n\n- 5", "5"),
        ("**Final Answer**\n\n-5", "-5"),
        ("## Final Answer\n\n**Answer: 5**", "5"),
        ("### Final Answer\n\n#### 5", "5"),
        ("<answer>5</answer>\nFinal answer\nsee above", "5"),
        ("Answer: 5\n\nFinal Answer\nHope this helps!", "5"),
        ("Final Answer\n---\n5", "5"),
        ("### Final answer:\n\n$x+1$", "$x+1$"),
        (r"Answer: \(5\) or \(6\)", r"\(5\) or \(6\)"),
        (r"Answer: 5, or in a box: \boxed{6}", "6"),
        ("<think>maybe Answer: 3</think>\nAnswer: 4", "4"),
        (r"maybe \boxed{3}</think> it is \boxed{4}", "4"),
    ],
)
def test_marked_answers(response: str, answer: str) -> None:
    found = extract_answer(response)
    assert found.text == answer
    assert found.formatted


@pytest.mark.parametrize(
    "response",
    [
        "",
        "it is 34",
        "The answer is not $5$",
        r"<think>a</think> <think> or \boxed{5}",
        r"<think> I guess \boxed{3}",
        r"<think>\boxed{3}</think> it is 3",
        "\x00",
    ],
)
def test_no_answer(response: str) -> None:
    assert extract_answer(response).text == ""
    assert not extract_answer(response).formatted


def test_lenient_takes_the_last_number() -> None:
    found = extract_answer("4 and 5 make 1,009, I think", lenient=True)
    assert (found.text, found.formatted) == ("1,009", False)
    assert extract_answer("nothing", lenient=True).text == ""
    assert extract_answer(r"\boxed{7} of 9", lenient=True).text == "7"


@pytest.mark.parametrize("tag", ["tool_response", "interpreter"])
def test_output_of_tools_is_not_the_models(tag: str) -> None:
    printed = rf"<{tag}>\boxed{{1}}</{tag}>"
    assert extract_answer(printed).text == ""
    assert extract_answer(rf"\boxed{{2}} {printed}").text == "2"
    assert extract_answer(rf"{printed} so \boxed{{3}} {printed}").text == "3"
    # Never closed, as when the response was cut off.
    assert extract_answer(rf"\boxed{{2}} <{tag}> \boxed{{1}}").text == "2"
    # A tool that prints the closing tag still speaks.
    assert extract_answer(rf"<{tag}></{tag}> \boxed{{1}} </{tag}>").text == ""
    assert own_text(f"a<{tag}>b</{tag}>c").split() == ["a", "c"]


def test_what_a_tool_prints_opens_nothing() -> None:
    printed = r"<interpreter>prints <tool_response></interpreter> so \boxed{5}"
    assert extract_answer(printed).text == "5"


def test_an_answer_is_found_at_the_end_of_a_long_response() -> None:
    assert extract_answer("word " * 100_000 + r"\boxed{5}").text == "5"
    assert extract_answer("word " * 100_000 + "Answer: 5").text == "5"
