"""The bare problem out of a prompt that somebody else wrapped in an instruction."""

from typing import Any

from data_prep.schema import Rejected

# (before, after) the problem, exactly as published; the longest first where one holds another.
WRAPPERS = (
    # BytedTsinghua-SIA/DAPO-Math-17k and AIME-2024.
    (
        "Solve the following math problem step by step. The last line of your response should be "
        "of the form Answer: $Answer (without quotes) where $Answer is the answer to the "
        "problem.\n\n",
        '\n\nRemember to put your answer on its own line after "Answer:".',
    ),
    # Infini-AI-Lab/GRESO.
    (
        "Please solve the following math problem: ",
        ". The assistant first thinks about the reasoning process step by step and then provides "
        "the user with the answer. Return the final answer in \\boxed{} tags, for example "
        "\\boxed{1}. Let's solve this step by step. ",
    ),
    # Skywork-OR1, POLARIS, One-Shot-RLVR.
    ("", " Let's think step by step and output the final answer within \\boxed{}."),
    ("", "\nPlease reason step by step, and put your final answer within \\boxed{}."),
)


def unwrap(text: str) -> str:
    """`text` without the first of `WRAPPERS` that it has whole, both ends or neither."""
    for before, after in WRAPPERS:
        if text.startswith(before) and text.endswith(after):
            return text[len(before) : len(text) - len(after)]
    return text


def problem_in(prompt: Any) -> str:
    """The bare problem of a `prompt`, which is a text or a list with one user message.

    Raises:
        Rejected: it is neither.
    """
    if isinstance(prompt, list):
        users = [message for message in prompt if message.get("role") != "system"]
        if len(users) != 1 or users[0].get("role") != "user":
            roles = [message.get("role") for message in prompt]
            raise Rejected("prompt is not one user message", f"roles {roles}")
        prompt = users[0].get("content")
    if prompt is None:
        raise Rejected("no problem")
    if not isinstance(prompt, str):
        raise Rejected("problem is not text", type(prompt).__name__)
    return unwrap(prompt)
