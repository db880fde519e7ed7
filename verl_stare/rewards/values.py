"""Whether two values without structure are the same: numbers with units, words, formulas."""

from __future__ import annotations

import re
from fractions import Fraction

from verl_stare.rewards import pool
from verl_stare.rewards.latex import key, variables
from verl_stare.rewards.numbers import Number, read_number
from verl_stare.rewards.structure import Leaf
from verl_stare.rewards.units import PERCENT, bare_unit

_WORDS = re.compile(r"[a-z][a-z' -]*[a-z]")
_BOUND = re.compile(r"\\(?:sum|prod|int|lim)(?![a-zA-Z])")
_IDENTITIES = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-zA-Z])")


class Values:
    """Compares values; of one comparison, since it counts the seconds of algebra that are left.

    Attributes:
        left: seconds of algebra.
        timed_out: they were not enough.
    """

    def __init__(self, seconds: float, tolerance: float | None) -> None:
        self.left = seconds
        self.timed_out = False
        self._tolerance = tolerance

    def same(self, one: Leaf, other: Leaf) -> bool:
        """Whether two leaves are equal, units included."""
        one, other = _measured(one, other), _measured(other, one)
        if not same_unit(one.unit, other.unit):
            return False
        numbers = read_number(one.text), read_number(other.text)
        if numbers[0] is not None and numbers[1] is not None:
            percents = one.unit == PERCENT, other.unit == PERCENT
            return self._numbers(numbers[0], numbers[1], percents[0] - percents[1])
        if key(one.text) == key(other.text):
            return bool(one.text)
        if _same_word(one.text, other.text):
            return True
        words = _words(one.text), _words(other.text)
        if words[0] and words[1]:
            return words[0] == words[1]
        if any(words) and any(numbers):
            return False
        if not _comparable(one.text, other.text):
            return False
        return self.algebra(one.text, other.text)

    def _numbers(self, one: Number, other: Number, percent: int) -> bool:
        """`percent`: 1 if only `one` has a percent sign, -1 if only `other` has, else 0."""
        if _numbers_equal(one, other, self._tolerance):
            return True
        if percent == 0:
            return False
        # 25% is written 25 or 0.25.
        sign, plain = (one, other) if percent == 1 else (other, one)
        share = Number(
            sign.value / 100,
            None if sign.places is None else sign.places + 2,
            sign.digits,
        )
        return _numbers_equal(share, plain, None)

    def algebra(self, one: str, other: str) -> bool:
        """Whether the worker says that two formulas are equal, in the seconds that are left."""
        if self.left <= 0:
            self.timed_out = True
            return False
        # One order for both, so that the answer cannot depend on it.
        verdict, spent = pool.equal(min(one, other), max(one, other), self.left)
        self.left -= spent
        self.timed_out |= verdict is None
        return bool(verdict)


def _measured(leaf: Leaf, other: Leaf) -> Leaf:
    """The leaf with the unit that its letters are, if the other side is a number."""
    if leaf.unit is not None or read_number(other.text) is None:
        return leaf
    found = bare_unit(leaf.text, other.unit)
    return leaf if found is None else Leaf(*found)


def _comparable(one: str, other: str) -> bool:
    """Whether two formulas can be equal by their letters; to read them takes long.

    Letters that only one has must cancel in a fraction, be bound by a sum, or go by an identity.
    """
    first, second = variables(one), variables(other)
    if first == second or any(
        _BOUND.search(text) or _IDENTITIES.search(text) for text in (one, other)
    ):
        return True
    if not first or not second or not (first < second or second < first):
        return False
    longer = one if second < first else other
    return "\\frac" in longer and all(longer.count(name) > 1 for name in first ^ second)


def _numbers_equal(one: Number, other: Number, tolerance: float | None) -> bool:
    if one.value == other.value:
        return True
    if tolerance is not None and abs(one.value - other.value) <= Fraction(tolerance):
        return True
    # A decimal for a fraction; two decimals are what they say.
    if (one.places is None) == (other.places is None):
        return False
    decimal, exact = (other, one) if one.places is None else (one, other)
    return decimal.stands_for(exact.value)


def same_unit(one: str | None, other: str | None) -> bool:
    """Whether two units are the same; one that is not written was left off."""
    if one is None or other is None or one == other:
        return True
    return {one, other} in ({"degree", "degree c"}, {"degree", "degree f"})


def _same_word(one: str, other: str) -> bool:
    """Three letters or more that differ in the first one's case alone: `Bob` and `bob`."""
    return (
        len(one) >= 3
        and one[1:] == other[1:]
        and one[1:].isalpha()
        and one[1:].islower()
        and one[0].casefold() == other[0].casefold()
    )


def _words(text: str) -> str | None:
    """The words of an answer that is no formula: lower case, single spaces, no article."""
    plain = re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", text).strip().casefold()
    plain = " ".join(plain.split())
    wrapped = "\\text" in text
    if plain in {"yes", "no"}:
        return plain
    if not _WORDS.fullmatch(plain) or not (wrapped or " " in plain or len(plain) >= 4):
        return None
    if not wrapped and min(map(len, plain.split())) < 2:
        return None
    return re.sub(r"^(?:the|an?) ", "", plain)
