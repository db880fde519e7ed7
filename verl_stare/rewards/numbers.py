r"""Rational numbers as they are written: `1,234`, `\frac{3}{2}`, `1\frac{4}{5}`, `4.5e33`, `-7/2`.

Exact: a decimal is the fraction that it denotes, and how many digits it has is kept beside it,
since `0.0833333333333333` can stand for 1/12.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

# A shorter decimal is no stand-in for a number that it does not equal.
STAND_IN_DIGITS = 6
# Python refuses to read integers of more than 4,300 digits, and no answer needs them.
_LONGEST = 400
_LARGEST_EXPONENT = 400

_UNSIGNED = r"(?:[1-9]\d{0,2}(?:(?:,\d{3})+|(?: \d{3})+)|\d+)(?:\.\d*)?|\.\d+"  # thousands or plain
_LITERAL = re.compile(
    rf"(?P<mantissa>{_UNSIGNED})"
    r"(?:\s*(?:\\times|\\cdot|\*|x)\s*10\s*\^\s*(?:\{\s*(?P<braced>[+-]?\s*\d+)\s*\}|(?P<bare>-?\d+))"
    r"|[eE](?P<e>[+-]?\d+))?"
)
_POWER_OF_TEN = re.compile(r"10\s*\^\s*(?:\{\s*(?P<braced>[+-]?\s*\d+)\s*\}|(?P<bare>\d))")
_SLASH = re.compile(rf"(?P<top>{_UNSIGNED})\s*/\s*(?P<bottom>{_UNSIGNED})")
_SIGNED = rf"\s*([+-]?)\s*({_UNSIGNED})\s*"
_FRACTION = re.compile(rf"(?P<whole>\d+)?\s*\\frac\s*\{{{_SIGNED}\}}\s*\{{{_SIGNED}\}}")
_MIXED_SLASH = re.compile(r"(?P<whole>\d+)(?: | and )(?P<top>\d+)\s*/\s*(?P<bottom>\d+)")
_REPEATING = re.compile(
    r"(?P<whole>\d*)\.(?P<fixed>\d*)\s*\\(?:overline|bar|dot)\s*\{?(?P<again>\d+)\}?"
)
# Three times the same digits, and then dots. Short, since all ways to split it are tried.
_GOING_ON = re.compile(r"(?P<whole>\d*)\.(?P<fixed>\d*?)(?P<again>\d+?)(?P=again){2,}\s*\\ldots")
_LONGEST_GOING_ON = 60
_SIGN = re.compile(r"\s*([+-])\s*")


@dataclass(frozen=True)
class Number:
    """A rational number.

    Attributes:
        value: exact.
        places: decimal places as written, for a decimal (`1.50` has 2, `1.5e3` has -2); None for
            what is exact by its form (an integer or a fraction).
        digits: significant digits of a decimal, without leading zeros.
    """

    value: Fraction
    places: int | None = None
    digits: int = 0

    def stands_for(self, value: Fraction) -> bool:
        """Whether this decimal is `value` rounded, or cut off, at its last digit."""
        if self.places is None or self.digits < STAND_IN_DIGITS:
            return False
        unit = Fraction(10) ** -self.places
        difference = self.value - value
        if abs(difference) <= unit / 2:
            return True
        return abs(difference) < unit and abs(self.value) <= abs(value)


def read_number(text: str) -> Number | None:
    """The number that the whole of a normalised text denotes; None if it is anything else."""
    if len(text) > _LONGEST:
        return None
    sign = 1
    text = text.strip()
    while (match := _SIGN.match(text)) is not None:
        sign = -sign if match[1] == "-" else sign
        text = text[match.end() :]
    for read in (_literal, _slash, _fraction, _mixed_slash, _power_of_ten, _repeating):
        number = read(text)
        if number is not None:
            return Number(sign * number.value, number.places, number.digits)
    return None


def _plain(text: str) -> Fraction:
    return Fraction(text.replace(",", "").replace(" ", "").rstrip(".") or "0")


def _literal(text: str) -> Number | None:
    match = _LITERAL.fullmatch(text)
    if match is None:
        return None
    mantissa = match["mantissa"]
    exponent = _exponent(match["braced"] or match["bare"] or match["e"] or "0")
    if exponent is None:
        return None
    value = _plain(mantissa) * Fraction(10) ** exponent
    _, point, decimals = mantissa.partition(".")
    if not (point and decimals):
        return Number(value)
    digits = mantissa.replace(",", "").replace(" ", "").replace(".", "").lstrip("0")
    return Number(value, len(decimals) - exponent, len(digits))


def _exponent(text: str) -> int | None:
    if len(text) > 8:
        return None
    exponent = int(text.replace(" ", ""))
    return exponent if abs(exponent) <= _LARGEST_EXPONENT else None


def _power_of_ten(text: str) -> Number | None:
    match = _POWER_OF_TEN.fullmatch(text)
    exponent = _exponent(match["braced"] or match["bare"]) if match else None
    return None if exponent is None else Number(Fraction(10) ** exponent)


def _slash(text: str) -> Number | None:
    match = _SLASH.fullmatch(text)
    return _divided(_plain(match["top"]), _plain(match["bottom"])) if match else None


def _fraction(text: str) -> Number | None:
    match = _FRACTION.fullmatch(text)
    if match is None:
        return None
    whole, top_sign, top, bottom_sign, bottom = match.groups()
    fraction = _divided(_plain(top), _plain(bottom))
    if fraction is None:
        return None
    value = -fraction.value if (top_sign == "-") != (bottom_sign == "-") else fraction.value
    if whole is None:
        return Number(value)
    # A whole number before a proper fraction is added to it, before any other multiplies it.
    if top_sign or bottom_sign or value >= 1:
        return Number(int(whole) * value)
    return Number(int(whole) + value)


def _mixed_slash(text: str) -> Number | None:
    match = _MIXED_SLASH.fullmatch(text)
    if match is None:
        return None
    fraction = _divided(_plain(match["top"]), _plain(match["bottom"]))
    return None if fraction is None else Number(int(match["whole"]) + fraction.value)


def _repeating(text: str) -> Number | None:
    match = _REPEATING.fullmatch(text)
    if match is None and len(text) <= _LONGEST_GOING_ON:
        match = _GOING_ON.fullmatch(text)
    if match is None:
        return None
    whole, fixed, again = match.groups()
    shift = 10 ** len(fixed)
    cycle = Fraction(int(again), 10 ** len(again) - 1) / shift
    return Number(Fraction(int(whole + fixed or "0"), shift) + cycle)


def _divided(top: Fraction, bottom: Fraction) -> Number | None:
    return Number(top / bottom) if bottom else None
