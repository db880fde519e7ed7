"""Which answers are the same. Every pair is compared both ways round."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verl_stare.rewards import equivalent

EQUAL = {
    "numbers": [
        ("0.333...", "1/3"),
        (r"0.1666\ldots", r"\frac16"),
        ("0.272727...", "3/11"),
        (r"\text{The answer is } 5", "5"),
        ("x^12", "x^{12}"),
        ("log2(8)", "3"),
        (r"1.5 \text{ million}", "1500000"),
        (r"\$5 million", "5,000,000"),
        (r"\frac{1}{3}", r"0.\overline{3}"),
        ("5+3=8", "8"),
        (r"2\sqrt{3} \approx 3.46", r"2\sqrt{3}"),
        (r"\approx 5", "5"),
        ("27", "27.0"),
        ("004", "4"),
        ("18.", "18"),
        (".5", "0.5"),
        (r"\frac12", r"\frac{1}{2}"),
        (r"\frac9{19}", "9/19"),
        (r"\dfrac{3}{2}", r"\tfrac{3}{2}"),
        (r"\frac{3}{2}", "1.5"),
        (r"\frac{-1}{2}", r"-\frac{1}{2}"),
        ("2/3", r"\frac{2}{3}"),
        (r"1\frac{4}{5}", "9/5"),
        (r"137 \frac{1}{2}", "137.5"),
        ("4.5e3", r"4.5 \times 10^{3}"),
        ("-3./2", "-3/2"),
        ("−3", "-3"),
    ],
    "thousands": [
        ("1,234", "1234"),
        ("1{,}234", "1234"),
        (r"10,\!080", "10080"),
        (r"11,\! 111,\! 100", "11111100"),
        ("-1,234.50", "-1234.5"),
        (r"1\,234", "1234"),
        ("1,234", "234, 1"),
    ],
    "decimals for exact values": [
        (r"0.05\sqrt{2}", "0.0707107"),
        ("0.0833333333333333", r"\frac{1}{12}"),
        ("1.414214", r"\sqrt{2}"),
        ("3.14159265", r"\pi"),
    ],
    "percent": [
        ("5%, 0.05", "0.05, 5"),
        (r"(5\%)^2", "0.0025"),
        ("62.5%", "0.625"),
        (r"62.5\%", "62.5"),
        (r"50 \text{ percent}", r"\frac{1}{2}"),
    ],
    "units": [
        ("5 L", r"5 \text{ L}"),
        ("5 g", "5 grams"),
        ("5 in", "5 inches"),
        (r"10 \frac{m}{s^2}", "10"),
        (r"10 \frac{\text{m}}{\text{s}^2}", "10 m/s^2"),
        ("10 m s^{-1}", "10"),
        (r"10\text{ m s}^{-1}", "10 m/s"),
        ("5^{th}", "5"),
        (r"5^{\text{th}}", "5th"),
        (r"5\frac{g}{L}", r"\frac{5g}{L}"),
        (r"5 \quad \text{cm}", "5"),
        (r"5\quad", "5"),
        (r"5 \text{ kW}", "5"),
        ("2\\sqrt{3} cm", r"2\sqrt{3}"),
        ("€5", "5 euros"),
        ("60 mph", "60 mi/h"),
        ("500 Å", r"500 \text{ angstroms}"),
        ("5'", "5"),
        (r"5 \text{ cm}", "5"),
        (r"5~\mathrm{cm}", "5 centimeters"),
        ("5 km/h", r"5 \text{ km/h}"),
        (r"15\mbox{ cm}^2", "15 square centimeters"),
        ("12 ferrets", "12"),
        (r"4.4 \times 10^{14} Hz", "4.4e14"),
        (r"3 \text{ kcal m}^{-2} \text{yr}^{-1}", "3"),
        (r"\$18.90", "18.9"),
        ("$18", "18 dollars"),
        (r"90^\circ", "90"),
        (r"90^{\circ}", r"90 \text{ degrees}"),
        (r"1950^\circ C", "1950"),
        (r"\frac{270}7\text{ degrees}", "270/7"),
        ("52_8", "52_{8}"),
        ("52_8", "52"),
        (r"(2,3)\text{ cm}", "(2,3)"),
        ("5 m/s", "5"),
        (r"50 \mu \mathrm{m}", "50"),
        (r"48 \AA", "48"),
    ],
    "names": [
        ("f'(x)=2x", "2x"),
        (r"\det A=5", "5"),
        (r"\max f=5", "5"),
        ("xy=5", "5"),
        (r"\langle u,v\rangle=5", "5"),
        ("x-2y=1", "2y-x+1=0"),
        ("(x,y)=(1,2)", "y=2, x=1"),
        ("f(x)=2x+1", "y=2x+1"),
        ("f(n)=n+1", "f(x)=x+1"),
        ("x=1, y=2", "y=2, x=1"),
        ("x=4=8/2", "4"),
        ("x=5", "5"),
        ("f(x)=x+1", "x+1"),
        (r"x \in [-2,7]", "[-2,7]"),
        (r"m_{\max }=n^{2}", "n^2"),
        ("m+n=34", "34"),
        ("S = 2 + 3 = 5", "5"),
        ("y = 2x + 3", "2x - y + 3 = 0"),
        ("k=n+1", "n+1=k"),
    ],
    "lists and sets": [
        (r"x=1 \quad y=2", "x=1, y=2"),
        ("{1,2}", r"\{2,1\}"),
        ("{1,234}", "1234"),
        ("{(1,2)}", "(1,2)"),
        (r"\{1,2\}", r"\{2,1\}"),
        ("1, 2", "2,1"),
        (r"\{1,2\}", "2 and 1"),
        (r"a=-2 \text{ or } a=1", r"a=1 \text{ or } a=-2"),
        ("$69$,$84$", "84, 69"),
        (r"1 \pm \sqrt{19}", r"1+\sqrt{19}, 1-\sqrt{19}"),
        (r"\{1\pm\sqrt{5},-2\}", r"-2, 1-\sqrt5, 1+\sqrt5"),
        (r"\{5\}", "5"),
        ("(1,2), (3,4)", "(3,4), (1,2)"),
        (r"\emptyset", r"\{\}"),
    ],
    "tuples and intervals": [
        (r"\langle 1,2\rangle", "(1,2)"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", "(1,2)"),
        (r"\begin{pmatrix}1&2\end{pmatrix}", "(1,2)"),
        (r"(-\infty,-1) \text{ or } (1,\infty)", r"(-\infty,-1)\cup(1,\infty)"),
        (r"x>0\quad\text{or}\quad x<-1", r"(-\infty,-1)\cup(0,\infty)"),
        (r"x\ne0", r"(-\infty,0)\cup(0,\infty)"),
        (r"\mathbb{R}\setminus\{3\}", r"x\neq 3"),
        (r"x\in\mathbb{R} \setminus\{3,1\}", r"(-\infty,1)\cup(1,3)\cup(3,\infty)"),
        ("x>1 and x<2", "(1,2)"),
        (r"x>1 \text{ and } x\le 2", r"1<x\le2"),
        ("1<x<2", "2>x>1"),
        ("2x>1", "x>0.5"),
        ("1:30", "01:30"),
        ("]0,1[", "(0,1)"),
        (r"]-\infty,0]\cup[1,2[", r"(-\infty,0]\cup[1,2)"),
        (r"x\in(0,1)", "0<x<1"),
        (r"[1,+\infty)", r"x \ge 1"),
        (r"\mathbb{R}", r"(-\infty,\infty)"),
        (r"x\le 1 \text{ or } x\ge 2", r"(-\infty,1]\cup[2,\infty)"),
        (r"\{x \mid 1<x<2\}", "(1,2)"),
        (
            r"\left(\begin{array}{cc}1&2\\3&4\end{array}\right)",
            r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
        ),
        ("(2,4)", "(2, 4)"),
        (r"\left(\frac{3}{5},\frac{8}{3}\right]", r"(0.6, \frac83]"),
        ("(1,2)", "1,2"),
        ("x=1, y=2", "(1,2)"),
        ("x>2", r"(2,\infty)"),
        (r"2 < x \le 5", "(2,5]"),
        (r"5 \geq x > 2", "(2,5]"),
        ("x<=3", r"(-\infty, 3]"),
        (r"(-\infty,2)\cup(3,\infty)", r"(3,\infty) \cup (-\infty,2)"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix} 1 \\ \frac{4}{2} \end{bmatrix}"),
        ("1 : 2", "1:2"),
    ],
    "matrices": [
        (r"\frac15\begin{pmatrix}5\\10\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        (r"-2\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix}-2&-4\\-6&-8\end{bmatrix}"),
        (r"-\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}-1\\-2\end{pmatrix}"),
        (r"k\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}k\\2k\end{pmatrix}"),
        (r"A=\frac12\begin{pmatrix}2\\4\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    ],
    "words and letters": [
        ("ACD", "A,C,D"),
        ("ACD", "A, D and C"),
        (r"(C)\quad 12", "C"),
        ("Option B", "(B)"),
        ("4:30 PM", "4:30 p.m."),
        ("Bob", "bob"),
        ("Yes", "yes"),
        (r"\text{(C)}", "C"),
        ("(C)", "C"),
        (r"\textbf{(C)}\ 12", "C"),
        ("C. 12", "12"),
        (r"\text{Evelyn}", "evelyn"),
        ("the ellipse", r"\text{ellipse}"),
    ],
    "formulas": [
        (r"\sum_{k=0}^n 2^k", r"2^{n+1}-1"),
        (r"\prod_{k=1}^n k", "n!"),
        (r"\lim_{n\to\infty} (1+1/n)^n", "e"),
        (r"\lim_{x\to 0}\frac{\sin x}{x}", "1"),
        (r"\lim_{x\to 0^+}\frac{|x|}{x}", "1"),
        (r"\lim_{x\to 0^{-}}\frac{|x|}{x}", "-1"),
        (r"\int_0^1 x^2 dx", "1/3"),
        (r"\frac{ab}{b}", "a"),
        (r"x \neq 3", "x != 3"),
        ("3^(1/2)", r"\sqrt{3}"),
        ("e^(2x)", "e^{2x}"),
        ("π²/6", r"\frac{\pi^2}{6}"),
        ("10⁻³", "0.001"),
        ("π/4", r"\frac\pi4"),
        (r"\sqrt[3]{-8}", "-2"),
        (r"\lg 1000", "3"),
        (r"\sin 30^\circ", r"\frac12"),
        (r"\sum_{k=1}^{10} k", "55"),
        (r"\sum_{i=1}^{n} i", r"\frac{n(n+1)}{2}"),
        (r"\sin^2 x + \cos^2 x", "1"),
        (r"{10 \choose 3}", "120"),
        (r"\frac{x}{7}+\frac{2}{7}", r"\frac{x+2}{7}"),
        ("-34x-45y+20z-100=0", "34x+45y-20z+100=0"),
        (r"3\sqrt{13}", r"\sqrt{117}"),
        (r"\frac{9}{32} \sqrt{2}", r"M=\frac{9\sqrt2}{32}"),
        ("2^{100}", "2^{101}/2"),
        (r"\frac{100!}{2^{50}}", "100!/2^{50}"),
        (r"1+\sqrt{3} i", r"1+i\sqrt{3}"),
        (r"e^{i\pi}", "-1"),
        (r"\lceil n / 2\rceil", r"\lfloor (n+1)/2 \rfloor"),
        (r"I(0)e^{-\frac{t}{RC}}", "I(0) e^{-t/(RC)}"),
        (r"y^{\prime}+ry=0", "y'+ry=0"),
        ("np.arcsin(10/13)", r"\arcsin{\frac{10}{13}}"),
        ("sqrt(2)/2", r"\frac{1}{\sqrt{2}}"),
        (r"\frac{\sqrt{2}\sqrt{2}}{1}", "2"),
        (r"\sqrt{a^2 b}", r"a\sqrt{b}"),
        ("SRMC=MR", "MR=SRMC"),
    ],
    "spelling": [
        ("*34*", "34"),
        (r"\boxed{34}", "34"),
        ("**34**", "34"),
        (r"\(34\)", "34"),
        (r"\[ 34 \]", "34"),
        ("`34`", "34"),
        (r"\displaystyle 34", "34"),
        ("（1，2）", "(1,2)"),
    ],
}

DIFFERENT = {
    "small or large": [
        (r"\frac{1}{2004!}", r"\frac{1}{2006!}"),
        (r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}"),
        (r"7.4 \times 10^{-12}", r"8 \times 10^{-12}"),
        ("10^{100}", "10^{101}"),
        (r"\sqrt{2}\cdot 10^{-9}", r"\sqrt{3}\cdot 10^{-9}"),
    ],
    "numbers": [
        ("1*", "1"),
        ("*5", "5"),
        ("1+", "1"),
        ("5^", "5"),
        ("0.333...", "0.333"),
        ("34*", "34"),
        ("12345678.9", r"\frac{123456789}{10}+0.01"),
        ("1,23", "123"),
        ("3 4", "34"),
        (r"3\quad 4", "34"),
        ("1 1/2", "11/2"),
        ("0,123", "123"),
        (r"\frac{1}{0}", r"\frac{2}{0}"),
        (r"5 \text{ million}", "5"),
        ("3", "-3"),
        ("12", "21"),
        ("0.3333", "0.333333"),
        ("100", "1{,}00"),
    ],
    "decimals that are too short": [("0.33", "1/3"), ("3.14", r"\pi"), ("1.41422", r"\sqrt2")],
    "units": [
        ("5 m", "5"),
        ("5 m", "5 g"),
        ("10 m s^{-1}", "10 m/s^2"),
        ("60 min", "1 h"),
        ("5 nonsense", "5"),
        ("12 abcd", "12"),
        (r"5 \text{x}", "5"),
        (r"0.5 \text{ of a million}", "0.5"),
        ("50%+1", "51"),
        ("5°+5", "10"),
        (r"10 \text{ MW}", r"10 \text{ mW}"),
        (r"5 \text{ not 6}", "5"),
        ("5 thirds", "5"),
        ("3 theta", "3"),
        (r"3 \text{!}", "3"),
        ("5''", "5'"),
        ("5 squared", "5"),
        ("5 cm", "5 m"),
        ("$5", "5 cents"),
        ("6m", "6"),
        ("7.6Z", "7.6"),
        ("52_8", "42"),
        ("52_8", "52_9"),
        (r"90^\circ", r"\frac{\pi}{2}"),
        (r"5\%", "0.5"),
        (r"5 \text{ percent}", "5 cm"),
    ],
    "names": [
        ("not x=5", "5"),
        ("3x=1", "3y=1"),
        ("(y,x)=(1,2)", "x=1, y=2"),
        ("y=1, x=2", "(1,2)"),
        ("4:30 pm", "4:30 am"),
        (r"\log x = 2", "2"),
        (r"\pi = 3", "3"),
        ("|x|=5", "5"),
        ("x^{-1}=5", "5"),
        ("x=5=6", "6"),
        ("y=1, x=2", "1, 2"),
        ("(x,y)=(1,2)", "(y,x)=(1,2)"),
        (r"x \not= 5", "5"),
        ("3=5", "5"),
        ("x=5", "y=5"),
        ("x+y=0", "0"),
        ("5x - 7y + 4 = 0", "0"),
        ("3x + 4y + 14=0", "3*x-1*y+13=0"),
        (r"\forall x>0, f(x) = 0", "f(x) = 0"),
        ("f(x)=x", "f(x)=2x"),
    ],
    "lists, tuples, intervals": [
        (r"x\quad y", "xy"),
        (r"\sqrt2\quad\sqrt3", r"\sqrt6"),
        (r"\emptyset", r"\{\emptyset\}"),
        ("{1,2}", "(1,2)"),
        ("1:02", "1:2"),
        ("1:05 pm", "1:5 pm"),
        ("(1,2)", r"\begin{pmatrix}2\\1\end{pmatrix}"),
        ("(1,2)", r"(1,\infty)\cup(2,3)"),
        ("x>1 or x<2", "(1,2)"),
        ("x>1 and y<2", "(1,2)"),
        ("1<x<2", "1<y<2"),
        (r"\{1,2\}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        (r"\mathbb{R}\setminus\{3\}", r"x\neq 4"),
        (r"\mathbb{R}\setminus\{3\}", r"\{3\}"),
        ("]0,1[", "[0,1]"),
        (r"\frac12\begin{pmatrix}2\\4\end{pmatrix}", "(2,4)"),
        (r"I+\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        ("1:2", "2:4"),
        ("1:2", "1/2"),
        ("(1,234)", "1234"),
        (r"\{1,234\}", "1234"),
        ("1<x<2", "1,2"),
        (r"x \not\in (1,2)", "(1,2)"),
        (r"p \lor q", r"p \land q"),
        ("x>1 or x<3", "x>1 and x<3"),
        (r"\begin{vmatrix}1&2\\3&4\end{vmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
        (r"\begin{pmatrix}1&2&3\\4\end{pmatrix}", r"\begin{pmatrix}1\\2&3&4\end{pmatrix}"),
        ("n=2, 3, 4", "n=1, 2, 3"),
        (r"21, 36, \text{ and } 82", r"19, 46, \text{ and } 82"),
        ("1,2", "1,2,3"),
        ("2,2", "2"),
        ("(3,1)", "(1,3)"),
        ("(2,4)", "[2,4]"),
        ("(2,4]", "[2,4)"),
        (r"\{1,2\}", "(1,2)"),
        ("1:00", "12:00"),
        (r"1:4:9:\ldots", r"1:2:3:\ldots"),
        ("1:2", "2:1"),
        ("x>2", r"x \ge 2"),
        ("x>2", r"(3,\infty)"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}"),
    ],
    "formulas": [
        (r"\sum_{k=0}^n 2^k", "2^{n}-1"),
        (r"\lim_{x\to 0}\frac{|x|}{x}", "1"),
        ("x+0.5y", "x+y"),
        ("|z|^2", "z^2"),
        ("x+1'", "x+1"),
        ("|x-5|", "5-x"),
        ("|x-100|", "100-x"),
        ("|x+10|", "x+10"),
        (r"\lfloor n/20\rfloor", r"\lfloor n/30\rfloor"),
        (r"\lfloor x \rfloor", "x"),
        (r"\binom{n}{20}", r"\binom{n}{21}"),
        ("|z-i|=1", "|z+i|=1"),
        ("1/2 x", "1/(2x)"),
        (r"x+y\ne1", r"x+y\ge1"),
        (r"1 + \frac{1}{\mathrm{e}}", r"1 - \frac{1}{\mathrm{e}}"),
        ("y'", "y"),
        ("x^2+C", "x^2+c"),
        ("aA", "a^2"),
        ("1+i", "1-i"),
        ("|x|", "x"),
        ("n!", "(n+1)!"),
        ("5", "5x"),
        (r"\sin x", r"\cos x"),
        ("2n", "2n+1"),
    ],
    "words and letters": [
        ("ACD", "A,C"),
        ("ACD", "A,C,D,D"),
        ("abc", "a,b,c"),
        ("twelve", "12"),
        ("(A) 1 (B) 2 (C) 3", "A"),
        ("C", "(C) or (D)"),
        ("yes", "no"),
        ("east", "west"),
        ("C", "D"),
        ("(C) 12", "D"),
        ("(C) 12", "(C) 13"),
        ("yes", "1"),
    ],
    "nothing": [("", "5"), (" ", " "), ("$$", "$$"), ("", "")],
}


def _flat(pairs: dict[str, list[tuple[str, str]]]) -> list[object]:
    return [
        pytest.param(*pair, id=f"{kind}: {pair[0]} | {pair[1]}")
        for kind, listed in pairs.items()
        for pair in listed
    ]


@pytest.mark.parametrize(("one", "other"), _flat(EQUAL))
def test_equal(one: str, other: str) -> None:
    assert equivalent(one, other).equal
    assert equivalent(other, one).equal


@pytest.mark.parametrize(("one", "other"), _flat(DIFFERENT))
def test_different(one: str, other: str) -> None:
    for verdict in (equivalent(one, other), equivalent(other, one)):
        assert not verdict.equal
        assert not verdict.timed_out


def test_tolerance_is_only_for_rows_that_state_one() -> None:
    assert not equivalent("4.15", "4.2").equal
    assert equivalent("4.15", "4.2", tolerance=0.1).equal
    assert not equivalent("4.05", "4.2", tolerance=0.1).equal


def test_what_takes_too_long_is_not_equal_and_says_so() -> None:
    verdict = equivalent("5^{5^{5^{5}}}", r"\sqrt{2}", time_limit=0.3)
    assert verdict.timed_out
    assert not verdict.equal


@pytest.mark.parametrize(("length", "read"), [(9_000, True), (10_001, False)])
def test_what_is_longer_than_any_answer_is_compared_as_text(length: int, read: bool) -> None:
    text = "1" + "0" * (length - 1)
    assert equivalent(text, f" {text}\n").equal
    assert not equivalent(text, text[:-1] + "1").equal
    assert equivalent(text, f"${text}$").equal is read


_PAIRS = [pair for pairs in (EQUAL, DIFFERENT) for listed in pairs.values() for pair in listed]
_ANSWERS = st.sampled_from(sorted({text for pair in _PAIRS for text in pair}))


@settings(max_examples=150, deadline=None)
@given(_ANSWERS, _ANSWERS)
def test_symmetric(one: str, other: str) -> None:
    assert equivalent(one, other) == equivalent(other, one)


_ITEMS = [
    *[("1", "1.0"), ("2", r"\frac42"), (r"\sqrt8", r"2\sqrt2"), ("x=3", "3"), ("4 cm", "4")],
    *[("(1,2)", "(1.0,2)"), ("50%", "0.5"), ("1", "01"), (r"\frac12", "0.5")],
]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(_ITEMS), min_size=2, max_size=5), st.randoms())
def test_lists_of_equal_items_are_equal_in_any_order(
    items: list[tuple[str, str]], draw: random.Random
) -> None:
    shuffled = draw.sample(items, len(items))
    one = "; ".join(item[0] for item in items)
    other = "; ".join(draw.choice(item) for item in shuffled)
    assert equivalent(one, other).equal
    assert equivalent(other, one).equal
    # One item more than once, or left out, is another list.
    assert not equivalent(one, f"{other}; 7").equal
    assert not equivalent(f"{other}; 7", one).equal


@settings(deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_compared_without_error(one: str, other: str) -> None:
    equivalent(one, other, time_limit=0.5)
    if one.strip() and equivalent(one, one).equal is False:
        # Only what is empty once its decoration is gone equals nothing, itself included.
        assert not equivalent(one, "1").equal
