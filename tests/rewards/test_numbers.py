"""Rational numbers as they are written."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verl_stare.rewards.numbers import Number, read_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("34", Fraction(34)),
        ("034", Fraction(34)),
        ("-7", Fraction(-7)),
        ("+7", Fraction(7)),
        ("--7", Fraction(7)),
        ("1,234", Fraction(1234)),
        ("-1,234,567", Fraction(-1234567)),
        ("10 000", Fraction(10000)),
        ("0.25", Fraction(1, 4)),
        (".25", Fraction(1, 4)),
        ("18.", Fraction(18)),
        (r"\frac{3}{4}", Fraction(3, 4)),
        (r"\frac{-3}{4}", Fraction(-3, 4)),
        (r"-\frac{3}{4}", Fraction(-3, 4)),
        (r"\frac{3}{-4}", Fraction(-3, 4)),
        (r"1\frac{4}{5}", Fraction(9, 5)),
        (r"-1\frac{4}{5}", Fraction(-9, 5)),
        (r"2\frac{5}{4}", Fraction(5, 2)),
        ("1 4/5", Fraction(9, 5)),
        ("3/4", Fraction(3, 4)),
        ("4.5e3", Fraction(4500)),
        ("1e-2", Fraction(1, 100)),
        (r"7 \times 10^{2}", Fraction(700)),
        (r"7 \cdot 10^{-2}", Fraction(7, 100)),
        ("7*10^2", Fraction(700)),
        ("10^{-3}", Fraction(1, 1000)),
        (r"0.\overline{3}", Fraction(1, 3)),
        (r"1.2\overline{45}", Fraction(137, 110)),
    ],
)
def test_values(text: str, value: Fraction) -> None:
    number = read_number(text)
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1,23",
        "1,2,3",
        "3/0",
        r"\frac{1}{0}",
        "2x",
        "1e999999999",
        "9" * 5000,
        "1.2.3",
        "-",
    ],
)
def test_anything_else_is_no_number(text: str) -> None:
    assert read_number(text) is None


@given(st.integers(-(10**12), 10**12), st.integers(1, 10**6))
def test_fractions_are_exact(top: int, bottom: int) -> None:
    for text in (f"{top}/{bottom}", rf"\frac{{{top}}}{{{bottom}}}"):
        number = read_number(text)
        assert number is not None
        assert number.value == Fraction(top, bottom)


def test_a_decimal_stands_for_what_it_rounds_or_cuts_off() -> None:
    third = Fraction(1, 3)
    two_thirds = Fraction(2, 3)

    def stands(text: str, value: Fraction) -> bool:
        number = read_number(text)
        assert isinstance(number, Number)
        return number.stands_for(value)

    assert stands("0.333333", third)
    assert stands("0.666667", two_thirds)
    assert stands("0.666666", two_thirds)
    assert stands("3.33333e-1", third)
    assert not stands("0.666668", two_thirds)
    assert not stands("0.333334", third)
    # Too few digits to stand for anything but itself; leading zeros are none.
    assert not stands("0.33333", third)
    assert not stands("0.00333333"[:-1], Fraction(1, 300))
    assert stands("0.00333333", Fraction(1, 300))
    # A fraction is no decimal.
    assert not stands("333333/1000000", third)
