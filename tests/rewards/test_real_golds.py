"""Ground truths of the six evaluation sets: each equals itself however written, and no other."""

import itertools
import random

import pytest

from tests.support.real_golds import VARIABLE, problems
from tests.support.renderings import renderings
from verl_stare.rewards import compute_score, equivalent

PROBLEMS = problems()
GOLDS = list(dict.fromkeys(p.gold for p in itertools.chain(*PROBLEMS.values())))
pytestmark = pytest.mark.skipif(not PROBLEMS, reason=f"{VARIABLE} names no folder of real rows")

# None of those drawn so far: every pair that is judged equal is listed here with the reason.
TRULY_EQUAL: set[frozenset[str]] = set()


@pytest.mark.parametrize("name", PROBLEMS)
def test_each_gold_equals_itself_however_written(name: str) -> None:
    missed = []
    for problem in PROBLEMS[name]:
        ways = list(renderings(problem.gold))
        assert len(ways) >= 6
        for way, response in ways:
            score = compute_score(name, response, problem.gold)
            answer = score["pred"]
            both = len(answer) == 256 or equivalent(problem.gold, answer).equal
            if score["acc"] != 1.0 or not both:
                missed.append((way, problem.gold, answer))
    assert not missed


def test_no_gold_is_empty() -> None:
    assert all(problem.gold for problem in itertools.chain(*PROBLEMS.values()))


def test_ten_thousand_pairs_of_different_golds() -> None:
    draw = random.Random(1)
    judged_equal = set()
    for _ in range(10_000):
        pair = draw.sample(GOLDS, 2)
        if equivalent(*pair).equal:
            judged_equal.add(frozenset(pair))
    assert judged_equal == TRULY_EQUAL
