r"""What a response answers: the box, or what a marker announces, in the model's own text.

In this order: the last complete `\boxed{}`; else the last of `#### x`, `<answer>x</answer>` and
`Answer: x` (also "the answer is x"); else, leniently, the last number. Calls and text of tools are
left out first, then whatever precedes the end of the reasoning (`</think>`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from verl_stare.rewards.boxes import last_boxed

# Longer answers are compared as they stand; nothing that long is a formula.
LONGEST = 10_000

_LONGEST_FORMULA = 1_000

_TOOL_TAGS = re.compile(r"<(tool_response|interpreter)>")
_MARKERS = re.compile(
    r"""
      ^[ \t]*\#{4}[ \t]*(?P<hash>[^\n]+)
    | <answer>(?P<tag>(?:(?!</?answer>).)*)</answer>
    | (?:final[ \t]+)?\banswer\b[*_ \t]*(?:is\b[ \t]*)?[:：][*_\s]*(?P<colon>[^\n]+)
    | (?:final[ \t]+)?\banswer\b[ \t]+is\b[*_ \t]*(?P<verb>[^\n]+)
    | 答案[ \t]*(?:是|为)?[ \t]*[:：]?[ \t]*(?P<chinese>[^\n]+)
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_HEADING = re.compile(
    r"^\W{0,8}final[ \t]+answer\W{0,4}\n\s*([^\n]+)", re.IGNORECASE | re.MULTILINE
)
_BULLET = re.compile(r"^(?:[-*>]|\d+[.)])[ \t]+")
_FORMULA = re.compile(r"\$\$?\s*[^$\s][^$]*\$\$?|\\\(.+?\\\)|\\\[.+?\\\]")
_NUMBER = re.compile(r"-?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:/\d+)?%?")


@dataclass(frozen=True)
class Answer:
    """What was found.

    Attributes:
        text: the answer as the model wrote it, without its marker; empty if there is none.
        formatted: a box or a marker announced it, so the response has the form asked for.
    """

    text: str
    formatted: bool


def extract_answer(response: str, *, lenient: bool = False) -> Answer:
    """The answer of a response, see the module's description.

    Args:
        response: the decoded response, of any length and content.
        lenient: take the last number where nothing is marked; for models too small to keep a form.
    """
    text = _after_reasoning(own_text(response))
    box = last_boxed(text)
    if box is not None:
        return Answer(box.strip(), True)
    marked = _last_marked(text)
    if marked:
        return Answer(marked, True)
    if lenient:
        numbers = _NUMBER.findall(text[-LONGEST:])
        if numbers:
            return Answer(numbers[-1].rstrip(","), False)
    return Answer("", False)


def own_text(response: str) -> str:
    """The response without calls of tools, and without their output, which a model could make
    print its answer.

    Tool output stands between `<tool_response>` or `<interpreter>` and the *last* closing tag
    before the next opening one, so that a closing tag printed by the tool ends nothing. Output that
    is never closed goes to the end.
    """
    own: list[str] = []
    inside = ""
    for place, piece in enumerate(_TOOL_TAGS.split(response)):
        if place % 2:
            # An opening tag; within output it is the tool's, which may print anything.
            inside = inside or piece
        elif not inside:
            own.append(piece)
        else:
            end = f"</{inside}>"
            if end in piece:
                own.append(piece.rpartition(end)[2])
                inside = ""
    return _without_calls("\n".join(own))


def _without_calls(text: str) -> str:
    """What is not code for a tool, which may print a box but answers nothing."""
    first, *others = text.split("<tool_call>")
    after = [
        piece.rpartition("</tool_call>")[2] if "</tool_call>" in piece else f"<tool_call>{piece}"
        for piece in others
    ]
    return "\n".join([first, *after])


def _after_reasoning(text: str) -> str:
    _, ended, text = text.rpartition("</think>")
    before, begun, _ = text.partition("<think>")
    if begun and not ended:
        # Cut off while it reasoned: it has not answered yet.
        return ""
    return before


def _last_marked(text: str) -> str:
    found = ""
    # Answers come last; the bound keeps the search short in endless responses.
    for match in _MARKERS.finditer(text[-LONGEST:]):
        found = _sentence(match[match.lastgroup or 0]) or found
    if not found:
        # A heading announces its next line, where nothing else says what the answer is.
        for match in _HEADING.finditer(text[-LONGEST:]):
            found = _sentence(_BULLET.sub("", match[1])) or found
    return found if re.search(r"\w", found) else ""


def _sentence(text: str) -> str:
    """What a marker announces, up to the end of its sentence; the first formula if there is one."""
    # Looking for its end from every place where one begins takes time.
    formula = _FORMULA.search(text[:_LONGEST_FORMULA])
    if formula and re.search(r"\bnot\b", text[: formula.start()], re.IGNORECASE):
        return ""
    if formula:
        # Dollar signs around several formulas ("$1$ and $2$") are all part of the answer.
        text = (
            text[formula.start() :]
            if text.count("$") > 2 or text.count("\\(") > 1
            else formula.group()
        )
    text = re.split(r"\.\s", text, maxsplit=1)[0]
    return text.strip().strip("*_").strip()
