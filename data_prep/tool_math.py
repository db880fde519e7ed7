"""DAPO-Math-17k for training with a Python tool, as train.parquet.

The rows are those of dapo_math.py with agent_name stare_tool_agent, verl_stare's agent loop for
tools (`--agent-name tool_agent`: verl's own); the tool is called code_interpreter.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file: modules are in the checkout, not in this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from dataclasses import replace

from data_prep import dapo_math
from data_prep.command import main
from data_prep.schema import TOOL

to_row = dapo_math.to_row
DATASET = replace(dapo_math.DATASET, name="tool_math", agent_name=TOOL)


if __name__ == "__main__":
    main("tool_math", __doc__, DATASET)
