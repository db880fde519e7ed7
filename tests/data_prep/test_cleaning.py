"""Which texts count as the same, which problems need a picture, which answers agree."""

import pytest

from data_prep.cleaning import is_chinese, needs_image, same_answer, text_key
from verl_stare.rewards.golds import pack_golds


def test_the_key_knows_no_white_space() -> None:
    assert text_key("How  many\n ones ?\u00a0\u3000\u200b") == text_key("How many ones?")
    assert text_key("é") == text_key("e\u0301")
    assert text_key("How many x?") != text_key("How many X?")


@pytest.mark.parametrize(
    "problem",
    [
        "See\n![Grid](https://example.org/a.png)",
        "See [img]https://example.org/a[/img]",
        "See <img src='a'>",
        "See \\includegraphics[width=1cm]{a}",
        "For the map go to http://example.org/map",
        "Find the area.\n\nAIME 1989 Problem 15.png",
        "Look at <image>.",
    ],
)
def test_a_problem_with_a_link_to_its_image_needs_it(problem: str) -> None:
    assert needs_image(problem)


@pytest.mark.parametrize(
    "problem",
    [
        "[asy]\ndraw((0,0)--(1,1));\n[/asy] How long is it?",
        "The image of $f$ is an interval.",
        "Let x.Find y! [1](2)",
        "3!(2) < 5",
    ],
)
def test_other_problems_do_not(problem: str) -> None:
    assert needs_image(problem) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1/2", "\\frac{1}{2}"),
        ("\\dfrac12", "\\tfrac{1}{2}"),
        ("0.5", "\\frac{1}{2}"),
        ("-3/4", "-0.75"),
        ("2.50", "2.5"),
        ("\\left( 1, 2 \\right)", "(1,2)"),
        ("$x$ and $y$", "x and y"),
        ("3 \\, \\pi", "3\\pi"),
    ],
)
def test_answers_that_are_the_same(one: str, other: str) -> None:
    assert same_answer(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "-1"),
        ("1/2", "1/3"),
        ("12", "1.2"),
        ("\\frac{1}{23}", "\\frac{12}{3}"),
        ("\\frac123", "\\frac{1}{23}"),
        ("\\frac123", "4"),
        ("1/0", "0"),
        ("x", "X"),
        ("(1,2)", "[1,2]"),
        ("9" * 5000, "9" * 5001),
    ],
)
def test_answers_that_are_not(one: str, other: str) -> None:
    assert not same_answer(one, other)


def test_each_alternative_counts() -> None:
    assert same_answer(pack_golds(["1/2", "x"]), "0.5")


def test_chinese() -> None:
    assert is_chinese("求 $x$")
    assert not is_chinese("Find $x$ — “é”")
