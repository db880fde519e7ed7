"""ReTool-SFT (JoeYing/ReTool-SFT) as train.parquet for verl's multi-turn SFT dataset.

A solution in the source is one text with <code>, <interpreter> and <answer> in it. Here it is a
conversation: each code block is an assistant's call of the tool code_interpreter, each interpreter
block the tool's answer, the rest what the assistant says. The problem is taken out of its
instruction and asked as in the other sets, so that the cold start and the training agree.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # run as a file: modules are in the checkout, not in this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import pyarrow as pa

from data_prep.command import main
from data_prep.dataset import Dataset
from data_prep.fields import Item
from data_prep.schema import EXTRA_INFO, TOOL, Asking, Rejected, Row, extra_info

CALL = pa.struct(
    [
        ("type", pa.string()),
        # Chat templates write the arguments as JSON themselves, so here they are a struct.
        (
            "function",
            pa.struct([("name", pa.string()), ("arguments", pa.struct([("code", pa.string())]))]),
        ),
    ]
)
TEXT_PARAMETER = pa.struct([("type", pa.string()), ("description", pa.string())])
PARAMETERS = pa.struct(
    [
        ("type", pa.string()),
        ("properties", pa.struct([("code", TEXT_PARAMETER)])),
        ("required", pa.list_(pa.string())),
    ]
)
FUNCTION = pa.struct(
    [("name", pa.string()), ("description", pa.string()), ("parameters", PARAMETERS)]
)
SCHEMA = pa.schema(
    [
        (
            "messages",
            pa.list_(
                pa.struct(
                    [
                        ("role", pa.string()),
                        ("content", pa.string()),
                        ("tool_calls", pa.list_(CALL)),
                    ]
                )
            ),
        ),
        ("tools", pa.list_(pa.struct([("type", pa.string()), ("function", FUNCTION)]))),
        ("extra_info", EXTRA_INFO),
    ]
)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "code_interpreter",
            "description": "A tool for executing Python code.",
            "parameters": {
                "type": "object",
                "properties": {
                    "code": {"type": "string", "description": "The Python code to execute."}
                },
                "required": ["code"],
            },
        },
    }
]

_QUESTION = "*user question:*"
# What the source says again after the problem.
_REMINDER = re.compile(
    r"\s*Remember to place the final answer in the last part using the format:.*", re.DOTALL
)
_BLOCK = re.compile(
    r"<code>(?P<code>.*?)</code>"
    r"|<interpreter>(?P<output>.*?)</interpreter>"
    # A fence without tags is code only if its output follows.
    r"|(?P<fence>```python\n(?:(?!```).)*```)(?=\s*<interpreter>)"
    r"|(?P<open></?(?:code|interpreter)>)",
    re.DOTALL,
)
_FENCE = re.compile(r"\s*```(?:python|py)?[ \t]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL)
_ANSWER = re.compile(r"</?answer>")


def to_row(item: Item, index: int, split: str, asking: Asking) -> Row:
    """Map ``messages``, a user's and an assistant's, to the conversation with tool calls.

    Raises:
        Rejected: the messages are others, or the blocks do not follow each other as they should.
    """
    question, solution = _texts(item.get("messages"))
    problem = problem_in(question)
    if not problem:
        raise Rejected("no problem")
    return {
        "messages": [_message(**asked) for asked in asking.messages(problem)] + turns(solution),
        "tools": TOOLS,
        "extra_info": extra_info(problem, index=index, split=split, tools=True),
    }


def problem_in(question: str) -> str:
    """The problem after the marker in a user's message; all of it if there is no marker."""
    _, marker, problem = question.rpartition(_QUESTION)
    return _REMINDER.sub("", problem).strip() if marker else question.strip()


def turns(solution: str) -> list[Row]:
    """The assistant's and the tool's messages in a solution.

    Raises:
        Rejected: a block is not closed, code has no output or output no code, or nothing is said
            at the end.
    """
    messages: list[Row] = []
    position = 0
    waiting = False  # for the output of the last code
    for block in _BLOCK.finditer(solution):
        said = solution[position : block.start()]
        position = block.end()
        if block["open"]:
            raise Rejected("a block is not closed", f"{block['open']} at {block.start()}")
        if block["output"] is not None:
            if not waiting or said.strip():
                raise Rejected("output without code", f"at {block.start()}")
            messages.append(_message("tool", block["output"].strip()))
            waiting = False
        elif waiting:
            raise Rejected("code without output", f"before {block.start()}")
        else:
            code = _code(block["code"] or block["fence"])
            if not code.strip():
                raise Rejected("empty code", f"at {block.start()}")
            messages.append(_message("assistant", _ANSWER.sub("", said).strip(), code))
            waiting = True
    if waiting:
        raise Rejected("code without output", "at the end")
    last = _ANSWER.sub("", solution[position:]).strip()
    if not last:
        raise Rejected("nothing is said at the end")
    return [*messages, _message("assistant", last)]


def _texts(messages: Any) -> tuple[str, str]:
    """The user's and the assistant's text of a row."""
    if not isinstance(messages, list):
        raise Rejected("messages are no list", type(messages).__name__)
    said = [message for message in messages if message.get("role") != "system"]
    roles = [message.get("role") for message in said]
    texts = [message.get("content") for message in said]
    if roles != ["user", "assistant"] or not all(isinstance(text, str) for text in texts):
        raise Rejected("not one user and one assistant message", f"roles {roles}")
    return texts[0], texts[1]


def _code(block: str | None) -> str:
    """The code in a block, out of its fence if it has one."""
    block = block or ""
    fenced = _FENCE.fullmatch(block)
    return fenced[1] if fenced else block.strip("\n")


def _message(role: str, content: str, code: str | None = None) -> Row:
    call = {"name": "code_interpreter", "arguments": {"code": code}}
    calls = None if code is None else [{"type": "function", "function": call}]
    return {"role": role, "content": content, "tool_calls": calls}


def _all_that_is_said(row: Row) -> str:
    """Solutions of one problem are no duplicates unless they are the same."""
    messages: Sequence[Row] = row["messages"]
    return repr([(message["content"], message["tool_calls"]) for message in messages])


DATASET = Dataset(
    name="retool_sft",
    hub="JoeYing/ReTool-SFT",
    files=("*.parquet",),
    forms=(("messages",),),
    to_row=to_row,
    agent_name=TOOL,
    schema=SCHEMA,
    same=_all_that_is_said,
)

if __name__ == "__main__":
    main("retool_sft", __doc__, DATASET)
