"""verl's tool agent loop with one instance of a tool a trajectory, and nothing lost in silence.

Rows name it: `agent_name=stare_tool_agent`. What it adds to verl's own:

- a tool's instance lives as long as the trajectory, and is released whatever happens;
- its text cannot forge special tokens or tags, nor stop the run by lone surrogates;
- calls that cannot be read, or are beyond what a turn or trajectory may call, are answered;
- the model's own text goes to the reward, apart from the tools' (`stare_model_text`);
- trajectories that the sandbox failed, or with void turns, can be left out of the loss;
- what the calls came to goes to the log (`tools/...`).
"""

from __future__ import annotations

import json
import logging
import math
import sys
from itertools import groupby
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, ToolListWrap, register
from verl.experimental.agent_loop.tool_agent_loop import AgentData, AgentState, ToolAgentLoop
from verl.experimental.agent_loop.tool_parser import FunctionCall
from verl.tools.schemas import ToolResponse

from verl_stare.bridge.python_tool import PythonTool
from verl_stare.bridge.tool_parser import LenientHermesParser, UnreadableCall
from verl_stare.rewards.extract import extract_answer
from verl_stare.rewards.score import MODEL_TEXT
from verl_stare.sandbox import ExecutionResult
from verl_stare.sandbox.calls import END, START, neutral, shortened
from verl_stare.sandbox.outcome import failure
from verl_stare.sandbox.tally import TALLY, Tally

logger = logging.getLogger("verl_stare")

NAME = "stare_tool_agent"
# Of the conversation, and of the reasoning, whether or not the tokenizer has them as tokens.
_TAGS = (
    START, END, "<tool_response>", "</tool_response>", "<interpreter>", "</interpreter>", "<think>",
    "</think>", "<answer>", "</answer>", "<|im_start|>", "<|im_end|>",
)  # fmt: skip
_LAST_CALL = "[this was the last call; give the final answer]"


# Its decorator hides its type.
_Base: Any = ToolAgentLoop


@register(NAME)
class StareToolAgentLoop(_Base):
    """One object a trajectory, as verl makes them."""

    def __init__(self, *args: Any, tools: ToolListWrap | None = None, **kwargs: Any) -> None:
        super().__init__(*args, tools=tools, **kwargs)
        # verl would drop the calls beyond it without a word.
        self._parallel_calls, self.max_parallel_calls = self.max_parallel_calls, sys.maxsize
        if self.tool_parser_name == "hermes":
            self.tool_parser = LenientHermesParser(self.tokenizer)
        self._python = [tool for tool in self.tools.values() if isinstance(tool, PythonTool)]
        nodes = max(1, self.config.trainer.get("nnodes", 1))
        for tool in self._python:
            tool.share_node(math.ceil(self.rollout_config.agent.num_workers / nodes))
        added = self.tokenizer.get_added_vocab() if self._python else {}
        self._specials = frozenset([*added, *self.tokenizer.all_special_tokens, *_TAGS])
        self._instances: dict[str, str] = {}
        self._tally = Tally()

    async def run(
        self, sampling_params: dict[str, Any], priority: int = 0, **kwargs: Any
    ) -> AgentLoopOutput:
        """Run a trajectory; see `ToolAgentLoop.run`."""
        try:
            output = await super().run(sampling_params, priority=priority, **kwargs)
        finally:
            await self._release()
        return self._finished(output)

    async def _release(self) -> None:
        for name, instance in self._instances.items():
            try:
                await self.tools[name].release(instance)
            except Exception:
                # The trajectory is whole; a session that does not end is ended with its jail.
                logger.exception("a tool's instance was not released")
        self._instances.clear()

    def _finished(self, output: AgentLoopOutput) -> AgentLoopOutput:
        turns = self._turns(output)
        texts = [self.tokenizer.decode(turn, skip_special_tokens=True) for turn in turns]
        output.extra_fields[MODEL_TEXT] = "\n".join(texts)
        settings = [tool.settings for tool in self._python]
        # The tags of a call may be special tokens.
        last = self.tokenizer.decode(turns[-1]) if turns else ""
        if START not in last and not extract_answer(texts[-1] if turns else "").formatted:
            self._tally.void = 1
        failed = self._tally.infrastructure and any(one.mask_infrastructure for one in settings)
        void = self._tally.void and any(one.mask_void_turns for one in settings)
        if failed or void:
            self._tally.masked = 1
            output.response_mask = [0] * len(output.response_mask)
        output.extra_fields[TALLY] = self._tally.as_dict()
        return output

    @staticmethod
    def _turns(output: AgentLoopOutput) -> list[list[int]]:
        """The tokens that the model wrote, turn by turn."""
        tokens = zip(output.response_ids, output.response_mask, strict=False)
        runs = groupby(tokens, key=lambda pair: pair[1])
        return [[token for token, _ in run] for own, run in runs if own]

    async def _handle_generating_state(
        self,
        agent_data: AgentData,
        sampling_params: dict[str, Any],
        ignore_termination: bool = False,
    ) -> AgentState:
        agent_data.tool_calls = []
        state = await super()._handle_generating_state(
            agent_data, sampling_params, ignore_termination
        )
        if state != AgentState.TERMINATED or len(agent_data.response_mask) >= self.response_length:
            return state
        # verl has not looked for calls where a limit of turns ends the trajectory. The model was
        # told with the answer before; nothing is put after its last turn, since verl's reward is
        # at the last token, and some estimators leave out one that is not the model's.
        _, calls = await self.tool_parser.extract_tool_calls(agent_data.response_ids, [])
        self._tally.calls += len(calls)
        self._tally.dropped += len(calls)
        return state

    async def _call_tool(
        self, tool_call: FunctionCall, tools_kwargs: dict[str, Any], agent_data: AgentData
    ) -> tuple[ToolResponse, float | None, dict[str, Any]]:
        place = next(n for n, call in enumerate(agent_data.tool_calls) if call is tool_call)
        if place >= self._parallel_calls:
            self._tally.calls += 1
            self._tally.dropped += 1
            note = f"[not run: at most {self._parallel_calls} calls a turn are made]"
            return ToolResponse(text=note), None, {}
        response, reward, metrics = await self._answer(tool_call, tools_kwargs, agent_data)
        text = response.text or ""
        # Cut first: to look through megabytes would hold up every trajectory of this worker.
        text = shortened(text, self.max_tool_response_length, self.tool_response_truncate_side)
        text = neutral(text, self._specials)
        if self._is_last_call(agent_data) and any(t.settings.last_call_note for t in self._python):
            text += f"\n{_LAST_CALL}"
        return response.model_copy(update={"text": text}), reward, metrics

    async def _answer(
        self, tool_call: FunctionCall, tools_kwargs: dict[str, Any], agent_data: AgentData
    ) -> tuple[ToolResponse, float | None, dict[str, Any]]:
        active = getattr(agent_data, "_active_tools", self.tools)
        if isinstance(tool_call, UnreadableCall):
            return self._malformed(tool_call.error)
        tool = active.get(tool_call.name)
        if tool is None:
            known = ", ".join(active)
            return self._malformed(f"there is no tool {tool_call.name!r}, only {known}")
        if not isinstance(tool, PythonTool):
            self._tally.calls += 1
            self._tally.ok += 1
            return await super()._call_tool(tool_call, tools_kwargs, agent_data)
        try:
            # Of other formats, whose parsers of verl's do not look at them.
            arguments = json.loads(tool_call.arguments)
        except (ValueError, RecursionError) as error:
            return self._malformed(f"the arguments are no JSON ({error})")
        try:
            result = await self._run_python(tool, arguments, tools_kwargs)
        except Exception as error:
            logger.exception("the Python tool failed")
            result = failure(f"{type(error).__name__}: {error}")
        self._tally.add(result)
        metrics = {"status": result.status, "wall_s": result.wall_s}
        return ToolResponse(text=result.text()), None, metrics

    async def _run_python(
        self, tool: PythonTool, arguments: Any, tools_kwargs: dict[str, Any]
    ) -> ExecutionResult:
        if tool.name not in self._instances:
            create = tools_kwargs.get(tool.name, {}).get("create_kwargs", {})
            self._instances[tool.name], _ = await tool.create(create_kwargs=create)
        return await tool.run(self._instances[tool.name], arguments)

    def _malformed(self, error: str) -> tuple[ToolResponse, None, dict[str, Any]]:
        self._tally.calls += 1
        self._tally.malformed += 1
        return ToolResponse(text=f"[not run: {error}]"), None, {}

    def _is_last_call(self, agent_data: AgentData) -> bool:
        """Whether verl will end the trajectory after the turn that follows this call."""
        turns, calls = self.max_assistant_turns, self.max_user_turns
        return bool(
            (turns and agent_data.assistant_turns + 1 >= turns)
            or (calls and agent_data.user_turns + 1 >= calls)
        )
