"""A reward that an untrained model gets about half of the time, so that advantages are not zero."""

import zlib
from typing import Any


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any
) -> dict[str, Any]:
    score = float(zlib.crc32(solution_str.encode()) % 2)
    return {"score": score, "acc": score, "pred": solution_str[:8]}
