"""Loaded in every process by VERL_USE_EXTERNAL_MODULES: conversations of an untrained model.

The tool parser `even` takes any answer with an even number of letters for a call of the tool
`double`, and half of the conversations of `tool_agent` yield two outputs.
"""

import json
import zlib
from typing import Any

import wrapt


def _add_parser(module: Any) -> None:
    @module.ToolParser.register("even")
    class EvenParser(module.ToolParser):
        async def extract_tool_calls(self, responses_ids: list[int], tools: Any = None) -> Any:
            text = self.tokenizer.decode(responses_ids, skip_special_tokens=True)
            if len(text) % 2:
                return text, []
            arguments = json.dumps({"number": len(text)})
            return text, [module.FunctionCall(name="double", arguments=arguments)]


def _yield_two(module: Any) -> None:
    async def run(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        sampling = args[0] if args else kwargs.pop("sampling_params")
        # An untrained model does not end its turn by itself.
        output = await wrapped({**sampling, "max_tokens": 8}, *args[1:], **kwargs)
        if zlib.crc32(bytes(str(output.response_ids), "ascii")) % 2:
            return output
        return [output.model_copy(deep=True), output]

    wrapt.wrap_function_wrapper(module.ToolAgentLoop, "run", run)


_LOOP = "verl.experimental.agent_loop"
wrapt.register_post_import_hook(_add_parser, f"{_LOOP}.tool_parser")
wrapt.register_post_import_hook(_yield_two, f"{_LOOP}.tool_agent_loop")
