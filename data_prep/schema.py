"""The one row of every prompt file, as verl's RLHFDataset, agent loops and reward managers read it.

Every file has these fields with these types, so that any of them concatenate with any other:
datasets refuses to join an integer index with a text one, or `string` with `large_string`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from verl_stare.rewards.golds import pack_golds

# The agent loop for tools is verl_stare's; verl's own takes the same rows.
SINGLE_TURN, TOOL, VERLS_TOOL = "single_turn_agent", "stare_tool_agent", "tool_agent"
AGENTS = (SINGLE_TURN, TOOL, VERLS_TOOL)
PLACEHOLDER = "{problem}"
BOXED = PLACEHOLDER + "\nPlease reason step by step, and put your final answer within \\boxed{}."

MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
# ToolAgentLoop reads tools_kwargs[tool]["create_kwargs"] without a check for None, and parquet has
# no empty struct: so each row has the whole of it, and the tool gets the row's index.
TOOLS_KWARGS = pa.struct(
    [("code_interpreter", pa.struct([("create_kwargs", pa.struct([("index", pa.int64())]))]))]
)
EXTRA_INFO = pa.struct(
    [
        ("index", pa.int64()),  # row of the source, counted over all its files
        ("split", pa.string()),
        ("id", pa.string()),  # what the source calls the row, "" if nothing
        ("problem", pa.string()),  # without instructions
        ("unit", pa.string()),
        ("tolerance", pa.float64()),  # absolute, where the set allows one
        ("copies", pa.int64()),  # rows of the source that are this one
        ("need_tools_kwargs", pa.bool_()),
        ("tools_kwargs", TOOLS_KWARGS),
    ]
)
SCHEMA = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", MESSAGES),
        ("ability", pa.string()),
        ("agent_name", pa.string()),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
        ("extra_info", EXTRA_INFO),
    ]
)
# verl's V1 trainer takes it before rollout.n, in training too, and fails on a None. So it is in
# every file for validation, and in none for training.
SAMPLES = "__rollout_n__"
VALIDATION_SCHEMA = SCHEMA.append(pa.field(SAMPLES, pa.int64()))

Row = dict[str, Any]


class Rejected(Exception):
    """Why a row of a source cannot be used: a short `reason`, and a `detail` of this row."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Asking:
    """How a problem is put to the model.

    Raises:
        ValueError: the template does not hold ``{problem}`` once, or the agent is unknown.
    """

    template: str = BOXED
    system_prompt: str = ""
    agent_name: str = SINGLE_TURN

    def __post_init__(self) -> None:
        if self.template.count(PLACEHOLDER) != 1:
            raise ValueError(f"template {self.template!r}: must hold {PLACEHOLDER} exactly once")
        if self.agent_name not in AGENTS:
            raise ValueError(f"agent name {self.agent_name!r}: allowed are {', '.join(AGENTS)}")

    def messages(self, problem: str) -> list[dict[str, str]]:
        """The chat that asks `problem`."""
        asked = {"role": "user", "content": self.template.replace(PLACEHOLDER, problem)}
        if not self.system_prompt:
            return [asked]
        return [{"role": "system", "content": self.system_prompt}, asked]


def prompt_row(
    problem: str,
    golds: Sequence[str],
    *,
    data_source: str,
    index: int,
    split: str,
    asking: Asking,
    id: object = "",
    unit: str | None = None,
    tolerance: float | None = None,
) -> Row:
    """One row of `SCHEMA`; `golds` are alternatives, of which any one is right.

    Raises:
        Rejected: there is no problem or no answer.
    """
    problem = problem.strip()
    if not problem:
        raise Rejected("no problem")
    ground_truth = pack_golds(golds)
    if not ground_truth:
        raise Rejected("no answer")
    return {
        "data_source": data_source,
        "prompt": asking.messages(problem),
        "ability": "math",
        "agent_name": asking.agent_name,
        "reward_model": {"style": "rule", "ground_truth": ground_truth},
        "extra_info": extra_info(
            problem,
            index=index,
            split=split,
            id=id,
            unit=unit,
            tolerance=tolerance,
            tools=asking.agent_name != SINGLE_TURN,
        ),
    }


def extra_info(
    problem: str,
    *,
    index: int,
    split: str,
    id: object = "",
    unit: str | None = None,
    tolerance: float | None = None,
    tools: bool = False,
) -> Mapping[str, Any]:
    """The struct `EXTRA_INFO`."""
    return {
        "index": index,
        "split": split,
        "id": "" if id is None else str(id),
        "problem": problem,
        "unit": None if unit is None else str(unit),
        "tolerance": tolerance,
        "copies": 1,
        "need_tools_kwargs": tools,
        "tools_kwargs": {"code_interpreter": {"create_kwargs": {"index": index}}},
    }
