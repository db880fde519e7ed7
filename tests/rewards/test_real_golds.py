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

# Different golds that are equal, each pair by a convention of the README.
TRULY_EQUAL = {
    frozenset(pair)
    for pair in [
        # same value
        ("1.25", r"\frac{5}{4}"),
        ("2", "+2"),
        (r"\frac{3}{2}", "1.5"),
        (r"\frac43", r"\frac{4}{3}"),
        (r"\frac{1}{3}", "1/3"),
        (r"\frac{1}{4}", r"\frac14"),
        (r"\frac65", "1.2"),
        (r"\frac{1}{2}", "0.5"),
        (r"\dfrac{33}{100}", "0.33"),
        (r"\frac{7}{4}", "1.75"),
        (r"\frac 34", r"\frac{3}{4}"),
        (r"2 \sqrt{5}", r"2\sqrt{5}"),
        (r"6\sqrt{2}", r"6 \sqrt{2}"),
        ("4.5", r"\frac{9}{2}"),
        ("1.6", r"\frac{8}{5}"),
        ("-3./2", r"-\frac{3}{2}"),
        ("0.10", r"\frac{1}{10}"),
        ("12.5", r"\frac{25}{2}"),
        ("2n", "2 n"),
        # same list
        ("1,-2", "-2,1"),
        ("2,3,4", "2,4,3"),
        ("(-2,1)", "-2,1"),
        # one names its value
        ("3", "k=3"),
        ("1", "k=1"),
        ("1", "f(x)=1"),
        ("5", "x=5"),
        # one function, its variable by two letters
        ("f(n)=n", "f(z)=z"),
        # one has its unit or base
        ("204", "204_5"),
        ("40_9", "40"),
        ("36", r"\$36"),
        ("8", r"8 \%"),
        ("15", r"15\mbox{ cm}^2"),
    ]
}


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
    assert judged_equal <= TRULY_EQUAL


def test_pairs_that_are_truly_equal() -> None:
    assert all(equivalent(*pair).equal for pair in TRULY_EQUAL)
