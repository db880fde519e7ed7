"""No regular expression tries too many ways to match: repeated pieces, then a tail that fits none.

Two ways to match the same character make a pattern take for ever on some thirty pieces. An alarm
ends a test that would not end by itself.
"""

import signal
from collections.abc import Callable, Iterator

import pytest

from verl_stare.rewards import canonical_gold, extract_answer
from verl_stare.rewards.boxes import last_boxed
from verl_stare.rewards.choices import as_choice, as_letter, same_letters
from verl_stare.rewards.extract import own_text
from verl_stare.rewards.intervals import as_interval, without
from verl_stare.rewards.latex import key, normalise, variables
from verl_stare.rewards.numbers import read_number
from verl_stare.rewards.structure import is_name, read
from verl_stare.rewards.units import bare_unit, split_unit

STUCK = 120
PIECES = r"""
\text{ | \text{a} | \text{a}/ | \text{a}^2 | \text{and} | \text{A} | \frac{ | \frac1 | \frac{1}{2}
\frac a | \sqrt( | \sqrt | ^{' | ^' | ^ | ^2 | ^{-1} | ^(1) | ' | \phantom{ | \left
\begin{array} | \begin{pmatrix} | \begin{pmatrix}1 | \end{pmatrix} | { | } | {} | {1, | $ | \$ | *
** | ` | ( | ) | [ | (] | [1,2] | ]1,2[ | ((1,2), | \{ | \} | \{1, | a | ab | a' | a- | a=1 | ans
1 | 1_ | _1 | _ | _{1} | 1, | 1. | 1.1 | .1 | 1/ | 1e | 10^ | - | +- | \pm | \pm1, | 1\pm( | =
a= | 1= | < | x<1 | x\ne1 | \ne | \setminus | : | 1: | \cup | \cup1 | and | 1 or | | | \\ | & | 1&
° | °C | % | 1% | \mu | cm | cm/ | m s | m^{-1} | / | \in | x\in | ~ | \, | \! | , \! | \circ
^{\circ} | \quad | 1\quad | \quad1 | \hspace{ | \ldots | 0.1\ldots | \overline{ | \overline1
log2( | A | A, | A. | (A) | (A)1 | \langle | \times | \times10^ | 1 \times 10 | million
1 million | \not | é | ½ | ² | \boxed{ | \lim | \sum | answer is | th
"""
TOKENS = sorted(
    {token.strip() for line in PIECES.split("\n") for token in line.split(" | ") if token.strip()}
    | {" ", "  ", "\t\n", " -", "- ", "1 ", "a ", "1 a ", r"\text{a} ", r"\text{ a "}
)
STARTS = (
    "",
    "5",
    "5 ",
    r"5 \text{a}",
    "x=",
    "answer:",
    "(A) ",
    "final answer\n",
    r"x\ne ",
    "]",
    "\\langle,",
)
TAILS = ("", "!", "\n!", "}")


@pytest.fixture(autouse=True)
def not_stuck() -> Iterator[None]:
    def stuck(*_: object) -> None:
        raise TimeoutError(f"no end after {STUCK} s")

    before = signal.signal(signal.SIGALRM, stuck)
    signal.alarm(STUCK)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _lenient(text: str) -> object:
    return extract_answer(text, lenient=True)


def _bare(text: str) -> object:
    return bare_unit(text, None)


def _letters(text: str) -> object:
    return same_letters(text, "AC")


def _without(text: str) -> object:
    return without([rf"\mathbb{{R}}\setminus\{{{text}\}}"]), without([text])


def _read(text: str) -> object:
    return read(normalise(text))


@pytest.mark.parametrize(
    ("function", "size"),
    [
        (last_boxed, 3_000),
        (own_text, 3_000),
        (_lenient, 3_000),
        (canonical_gold, 1_000),
        (normalise, 1_000),
        (key, 1_000),
        (variables, 1_000),
        (as_choice, 1_000),
        (as_letter, 1_000),
        (_letters, 1_000),
        (_read, 500),
        (is_name, 500),
        (as_interval, 500),
        (_without, 500),
        (split_unit, 400),
        (_bare, 400),
        (read_number, 400),
    ],
)
def test_ends(function: Callable[[str], object], size: int) -> None:
    for token in TOKENS:
        for start in STARTS:
            for tail in TAILS:
                function(start + token * ((size - len(start) - len(tail)) // len(token)) + tail)
