"""Scoring of math answers: what was answered, and does it equal the ground truth.

Imports no verl, ray, hydra or torch. For verl::

    reward.custom_reward_function.path=pkg://verl_stare.rewards
    reward.custom_reward_function.name=compute_score

The conventions are a table in the README of this folder.
"""

from verl_stare.rewards.equivalence import Verdict, equivalent
from verl_stare.rewards.extract import Answer, extract_answer
from verl_stare.rewards.golds import canonical_gold, pack_golds, unpack_golds
from verl_stare.rewards.score import compute_score

__all__ = [
    "Answer",
    "Verdict",
    "canonical_gold",
    "compute_score",
    "equivalent",
    "extract_answer",
    "pack_golds",
    "unpack_golds",
]
