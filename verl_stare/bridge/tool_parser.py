"""The calls of `sandbox.calls` as a tool parser of verl's: `multi_turn.format=stare_hermes`."""

from __future__ import annotations

import json
from typing import Any

from verl.experimental.agent_loop.tool_parser import FunctionCall, ToolParser

from verl_stare.sandbox.calls import read_tool_calls

NAME = "stare_hermes"
UNREADABLE = "unreadable_call"


class UnreadableCall(FunctionCall):
    """A call that cannot be made, and why."""

    error: str


@ToolParser.register(NAME)
class LenientHermesParser(ToolParser):
    """Hermes' form of calls, read as they were meant; none is dropped.

    In verl's own agent loop a call that cannot be read is one of the unknown function
    `unreadable_call`, which the model is told.
    """

    async def extract_tool_calls(
        self, responses_ids: list[int], tools: Any = None
    ) -> tuple[str, list[FunctionCall]]:
        """The text of a response without its calls, and the calls."""
        content, calls = read_tool_calls(self.tokenizer.decode(responses_ids))
        return content, [
            UnreadableCall(name=UNREADABLE, arguments="{}", error=call.error)
            if call.error
            else FunctionCall(name=call.name, arguments=json.dumps(call.arguments))
            for call in calls
        ]
