"""A tool for the multi-turn test (`rollout.multi_turn.function_tool_path`)."""

from verl.tools.function_tool import function_tool


@function_tool("double")
def double(number: int) -> str:
    """Double a number.

    Args:
        number: the number.
    """
    return str(2 * number)
