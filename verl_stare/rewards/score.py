"""`compute_score`: the reward of a math answer, in the form that verl's reward managers ask for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, TypedDict

from verl_stare.rewards import pool
from verl_stare.rewards.equivalence import TIME_LIMIT, equivalent
from verl_stare.rewards.extract import extract_answer
from verl_stare.rewards.golds import unpack_golds

logger = logging.getLogger(__name__)
_PRED_LENGTH = 256


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
            counts as none.
        correct, wrong: rewards. These and the next two are set by
            `reward.custom_reward_function.reward_kwargs`.
        lenient: without a box or a marker, take the last number of the response.
        time_limit: seconds of algebra for this response.
        _: what verl passes to every reward function.
    """
    pool.get()
    answer = extract_answer(solution_str or "", lenient=lenient)
    golds = unpack_golds(ground_truth)
    if not golds:
        logger.warning("a row of %s has no ground truth, so no answer to it is right", data_source)
    tolerance = _tolerance(extra_info)
    right = timed_out = False
    for gold in golds if answer.text else []:
        verdict = equivalent(answer.text, gold, time_limit=time_limit, tolerance=tolerance)
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


def _tolerance(extra_info: Mapping[str, Any] | None) -> float | None:
    # Where files are concatenated, rows of the others hold None or NaN.
    tolerance = (extra_info or {}).get("tolerance")
    return float(tolerance) if tolerance is not None and tolerance > 0 else None


def _printable(text: str) -> str:
    """Without what a tracker or a file cannot hold: lone surrogates and NULs."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "")
