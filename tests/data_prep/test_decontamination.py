"""Which rows are held to contain an evaluation item."""

from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.decontamination import EvaluationItem, N, Overlaps, words

WORDS = [letter * 3 for letter in ascii_lowercase]


def item(problem: str, index: int = 0, source: str = "amc23") -> EvaluationItem:
    return EvaluationItem(source, index, problem, "1")


def share(evaluated: str, problem: str, threshold: float = 0.0) -> float:
    found = Overlaps([item(evaluated)], threshold).find(problem)
    return found[0].share if found else 0.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Find $\\dfrac{1}{2}x$.", "find \\(\\frac12 x\\)"),
        ("\\left(a,b\\right)", "(a, b)"),
        ("$5 \\text{ cm}$", "5 cm"),
        ("AB12cd", "ab 12 CD"),
        ("\\tfrac{1}{2}", "$$\\frac {1} {2}$$"),
        ("\uff21\uff11", "a 1"),
        ("snake_case", "snake case"),
    ],
)
def test_words_do_not_see_the_looks(one: str, other: str) -> None:
    assert words(one) == words(other)


def test_words() -> None:
    assert words("If $x^2+\\sqrt{3}=\\leftarrow$, 求值") == [
        *("if", "x", "2", "sqrt", "3", "leftarrow"),
        *("求", "值"),
    ]
    assert words("$+-=$") == []


def test_the_share_is_of_the_items_ngrams() -> None:
    evaluated = " ".join(WORDS[:20])  # 8 n-grams
    assert share(evaluated, f"Before. {evaluated}, after") == 1
    assert share(evaluated, " ".join(WORDS[:16])) == 4 / 8
    assert share(evaluated, " ".join(WORDS[8:])) == 0  # twelve words in common
    assert share(evaluated, "") == 0


def test_more_than_the_threshold_is_an_overlap() -> None:
    evaluated = " ".join(WORDS[:20])
    half = " ".join(WORDS[:16])
    assert share(evaluated, half, 0.5) == 0
    assert share(evaluated, half, 0.49) == 0.5
    assert share(evaluated, " ".join(WORDS[:17]), 0.5) == 5 / 8
    for threshold in (-0.1, 1, float("nan")):
        with pytest.raises(ValueError, match="threshold"):
            Overlaps([], threshold)


def test_short_items_are_matched_whole() -> None:
    nine = " ".join(WORDS[:9])
    assert share(nine, f"Solve: {nine}!") == 1
    assert share(nine, " ".join(WORDS[:8])) == 0
    assert share(nine, "x" + nine) == 0  # another first word
    four = " ".join(WORDS[:4])
    assert share(four, four.upper() + ".") == 1
    assert share(four, f"Solve {four}") == 0  # four words say too little inside another problem
    assert share("$+$", "$-$") == 0  # no word, so nothing to go by


def test_all_matches_are_named_the_largest_first() -> None:
    long, short = " ".join(WORDS[:26]), " ".join(WORDS[:13])
    overlaps = Overlaps([item(long, 3), item(short, 5, "math500")], 0.0)
    assert [(m.item.name, m.share) for m in overlaps.find(" ".join(WORDS[:15]))] == [
        ("math500 item 5", 1.0),
        ("amc23 item 3", 3 / 14),
    ]


@given(
    st.lists(st.sampled_from(WORDS[:3]), max_size=40),
    st.lists(st.sampled_from(WORDS[:3]), max_size=40),
)
def test_a_problem_contains_itself_wherever_it_stands(text: list[str], around: list[str]) -> None:
    evaluated = " ".join(text)
    alone = share(evaluated, evaluated)
    assert alone == bool(text)
    if len(text) >= N:
        assert share(evaluated, " ".join([*around, *text, *around])) == 1
