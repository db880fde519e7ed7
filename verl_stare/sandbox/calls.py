"""Tool calls in the text of a model, read as they were meant: `<tool_call>{...}</tool_call>`.

A model that learns to call a tool writes calls that are no strict JSON: a line break in a string, a
code fence around the call, arguments that are JSON in a string. What can be understood is; what
cannot becomes a call with an error, which is the tool's answer, so that the model can do better.
None is dropped.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

START, END = "<tool_call>", "</tool_call>"
# Without its tags, which the answer of a tool does not show.
_HOW = 'write {"name": NAME, "arguments": {...}} between the tags of a call'
# Line breaks and tabs in strings are what they look like.
_DECODER = json.JSONDecoder(strict=False)
_FENCE = re.compile(r"\s*(?:```[a-zA-Z]*\s*)?")
_OPENS = re.compile(r"\s*[`{\[\"]")
_AFTER = re.compile(r"\s*(?:```)?\s*")


@dataclass(frozen=True)
class ToolCall:
    """A call that a model wrote.

    Attributes:
        name: of the tool; empty if there is none.
        arguments: by name.
        error: why it cannot be made; empty if it can.
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    error: str = ""


def read_tool_calls(text: str) -> tuple[str, list[ToolCall]]:
    """The text without its calls, and the calls in their order.

    A call ends where its JSON does, whatever is in its strings; one that is no JSON ends at the
    next tag. One that is cut off at the end of the text counts if its JSON is whole. A tag in the
    middle of a line that no JSON follows, nor a closing tag, is a word of the text.
    """
    content: list[str] = []
    calls: list[ToolCall] = []
    place = 0
    while (start := text.find(START, place)) >= 0:
        content.append(text[place:start])
        begin = start + len(START)
        line = text[text.rfind("\n", 0, start) + 1 : start]
        if line.strip() and not _OPENS.match(text, begin) and text.find(END, begin) < 0:
            content.append(text[start:begin])
            place = begin
            continue
        call, place = _read(text, begin)
        calls.append(call)
    content.append(text[place:])
    return "".join(content), calls


def _read(text: str, start: int) -> tuple[ToolCall, int]:
    """The call whose opening tag ends at `start`, and where the text goes on."""
    fence = _FENCE.match(text, start)
    begin = fence.end() if fence else start
    try:
        written, end = _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError) as error:
        following = text.find(START, start)
        closing = text.find(END, start, following if following >= 0 else len(text))
        end = closing + len(END) if closing >= 0 else following if following >= 0 else len(text)
        return ToolCall("", error=_explain(error, text, begin)), end
    after = _AFTER.match(text, end)
    end = after.end() if after else end
    if text.startswith(END, end):
        return _call(written), end + len(END)
    closing, following = text.find(END, end), text.find(START, end)
    if closing < 0 or 0 <= following < closing:
        # Never closed; what follows is another call, or the rest of the text.
        return _call(written), end
    if text[end:closing].strip():
        return ToolCall("", error=f"there is more than one JSON object in a call; {_HOW}"), (
            closing + len(END)
        )
    return _call(written), closing + len(END)


def _call(written: Any) -> ToolCall:
    if not isinstance(written, dict):
        return ToolCall("", error=f"a call is a JSON object; {_HOW}")
    name = written.get("name")
    if not isinstance(name, str) or not name:
        return ToolCall("", error=f'a call needs a "name"; {_HOW}')
    arguments = written.get("arguments", written.get("parameters"))
    if isinstance(arguments, str):
        try:
            arguments = _DECODER.decode(arguments)
        except (ValueError, RecursionError) as error:
            return ToolCall(name, error=f'"arguments" is no JSON object ({error}); {_HOW}')
    if arguments is None:
        return ToolCall(name, error=f'a call needs "arguments"; {_HOW}')
    if not isinstance(arguments, dict):
        return ToolCall(name, error=f'"arguments" is a JSON object; {_HOW}')
    return ToolCall(name, arguments)


def _explain(error: ValueError | RecursionError, text: str, begin: int) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return f"the call is no JSON that can be read; {_HOW}"
    near = text[max(begin, error.pos - 20) : error.pos + 20].replace("\n", "\\n")
    return f"the call is no JSON: {error.msg} near {near!r}; {_HOW}"


def without_fence(code: str) -> str:
    """The code in a code fence, if all of it is in one."""
    # Not by a regular expression, which takes long on many blank lines.
    stripped = code.strip()
    first, line_break, rest = stripped.partition("\n")
    language = first.removeprefix("```").strip()
    fenced = first.startswith("```") and line_break and rest.endswith("```")
    if not fenced or (language and not language.isalnum()):
        return code
    return rest[: -len("```")].rstrip("\r\n\t ")


def neutral(text: str, specials: frozenset[str]) -> str:
    """A text in which nothing reads as a special token, or as a tag of the conversation.

    A model's code can print `<|im_end|>` and forge a turn. A space after its first character takes
    such a string apart, whatever the tokenizer. Lone surrogates, which no tokenizer takes, become
    U+FFFD.

    Args:
        text: of a tool.
        specials: the tokenizer's special and added tokens, and tags; single characters and blanks
            are left alone.
    """
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    dangerous = [special for special in specials if len(special) > 1 and special.strip()]
    if not dangerous:
        return text
    # Longest first, since one may begin another.
    pattern = "|".join(map(re.escape, sorted(dangerous, key=len, reverse=True)))
    return re.sub(pattern, lambda found: f"{found[0][0]} {found[0][1:]}", text)


def shortened(text: str, limit: int, side: str = "middle") -> str:
    """At most `limit` characters of a text, and how many were left out.

    Args:
        side: where: `left`, `middle` or `right`.
    """
    if len(text) <= limit:
        return text
    note = f"...({len(text) - limit} characters left out)..."
    if side == "left":
        return note + text[len(text) - limit :]
    if side == "right":
        return text[:limit] + note
    head = limit // 2
    return text[:head] + note + text[len(text) - (limit - head) :]
