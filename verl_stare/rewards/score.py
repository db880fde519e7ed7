"""`compute_score`: the reward of a math answer, in the form that verl's reward managers ask for."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any, TypedDict

from verl_stare.rewards import pool
from verl_stare.rewards.equivalence import TIME_LIMIT, equivalent
from verl_stare.rewards.extract import extract_answer
from verl_stare.rewards.golds import unpack_golds

logger = logging.getLogger(__name__)
_PRED_LENGTH = 256
# Where the agent loop for tools leaves what the model itself wrote, among the fields of a row.
MODEL_TEXT = "stare_model_text"


class Score(TypedDict):
    """Always these keys and types, since verl gathers them over a batch.

    Attributes:
        score: the reward.
        acc: 1.0 if the answer is right, else 0.0.
        format: 1.0 if a box or a marker announced the answer, else 0.0.
        pred: the answer, at most 256 characters of it; empty if there is none.
        timed_out: 1.0 if comparing took too long, which counts as wrong.
    """

    score: float
    acc: float
    format: float
    pred: str
    timed_out: float


def compute_score(
    data_source: str,
    solution_str: str | None,
    ground_truth: object,
    extra_info: Mapping[str, Any] | None = None,
    *,
    correct: float = 1.0,
    wrong: float = 0.0,
    lenient: bool = False,
    time_limit: float = TIME_LIMIT,
    **_: object,
) -> Score:
    """Score one response.

    Args:
        data_source: not used; every set's answers are compared by the same rules.
        solution_str: the decoded response. What tools put out in it is not read.
        ground_truth: the right answer, or several of which any will do (a JSON list or a list).
        extra_info: of the row; `tolerance` is the largest absolute difference of two numbers that
            counts as none; `stare_model_text`, from the agent loop for tools, is the response
            without the tools' text, and is read instead of `solution_str`.
        correct, wrong: rewards. These and the next two are set by
            `reward.custom_reward_function.reward_kwargs`.
        lenient: without a box or a marker, take the last number of the response.
        time_limit: seconds of algebra for this response, at most three times that on the clock.
        _: what verl passes to every reward function.

    Raises:
        ValueError: `time_limit` is not positive.
        verl_stare.rewards.pool.Unavailable: the worker process does not start.
    """
    if not 0 < time_limit < math.inf:
        raise ValueError(f"time_limit={time_limit!r}: must be a positive number of seconds")
    pool.get()
    answer = extract_answer(_own_text(solution_str, extra_info), lenient=lenient)
    golds = unpack_golds(ground_truth)
    if not golds:
        logger.warning("a row of %s has no ground truth, so no answer to it is right", data_source)
    tolerance = _tolerance(extra_info)
    right = timed_out = False
    left = time_limit
    for gold in golds if answer.text else []:
        verdict = equivalent(answer.text, gold, time_limit=left, tolerance=tolerance)
        left -= verdict.seconds
        timed_out |= verdict.timed_out
        if verdict.equal:
            right, timed_out = True, False
            break
    return Score(
        score=float(correct if right else wrong),
        acc=float(right),
        format=float(answer.formatted),
        pred=_printable(answer.text[:_PRED_LENGTH]),
        timed_out=float(timed_out),
    )


def _own_text(solution: object, extra_info: object) -> str:
    own = extra_info.get(MODEL_TEXT) if isinstance(extra_info, Mapping) else None
    if isinstance(own, str):
        return own
    return "" if solution is None else str(solution)


def _tolerance(extra_info: object) -> float | None:
    # Where files are concatenated, rows of the others hold None or NaN; some sets have text.
    written = extra_info.get("tolerance") if isinstance(extra_info, Mapping) else None
    try:
        tolerance = float(written) if written is not None else 0.0
    except (TypeError, ValueError):
        return None
    return tolerance if 0 < tolerance < math.inf else None


def _printable(text: str) -> str:
    """Without what a tracker or a file cannot hold: lone surrogates and NULs."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "")
