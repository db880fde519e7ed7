"""Whether two answers are the same: exactly where that can be said at once, else by algebra.

Symmetric in its two arguments. The conventions are a table in the README of this folder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from verl_stare.rewards import pool
from verl_stare.rewards.extract import LONGEST
from verl_stare.rewards.intervals import as_interval, is_inequality
from verl_stare.rewards.latex import key, normalise, variables
from verl_stare.rewards.numbers import Number, read_number
from verl_stare.rewards.structure import Equation, Group, Leaf, Node, is_name, read
from verl_stare.rewards.units import PERCENT

# Seconds for the algebra of one comparison, whatever the answers are.
TIME_LIMIT = 3.0
_LONGEST_FORMULA = 1_000
_MOST_ITEMS = 64

_CHOICE = re.compile(
    r"(?:\\text\s*\{\s*)?(?:\(\s*([A-J])\s*\)|([A-J])[.:)])\s*\}?\s*(\S.*)", re.DOTALL
)
_LETTER = re.compile(r"\(?\s*(?:\\text\s*\{\s*)?\(?\s*([A-J])\s*[.)]?\s*\}?\s*\)?")
_WORDS = re.compile(r"[a-z][a-z' -]*[a-z]")
_FUNCTION = re.compile(r"(?P<name>[a-zA-Z])\((?P<variable>[a-z])\)")
_ANOTHER = re.compile(r"\(\s*[A-J]\s*\)|\b[A-J][.:)](?!\S)")
_BOUND = re.compile(r"\\(?:sum|prod|int|lim)(?![a-zA-Z])")
_IDENTITIES = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-zA-Z])")
_LIST_OR_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+")


@dataclass(frozen=True)
class Verdict:
    """Attributes:
    equal: the two answers are the same.
    timed_out: the algebra was cut short, and what it would have said is counted as no.
    seconds: of algebra.
    """

    equal: bool
    timed_out: bool = False
    seconds: float = field(default=0.0, compare=False)


def equivalent(
    one: str, other: str, *, time_limit: float = TIME_LIMIT, tolerance: float | None = None
) -> Verdict:
    """Compare two answers, in LaTeX or plain text.

    Args:
        one, other: any text; blank ones equal nothing.
        time_limit: seconds of algebra in all; the exact part takes milliseconds.
        tolerance: largest absolute difference of two plain numbers that counts as none, for
            questions that state one.
    """
    comparison = _Comparison(time_limit, tolerance)
    equal = comparison.texts(one, other)
    return Verdict(equal, comparison.timed_out and not equal, time_limit - comparison.left)


class _Comparison:
    """One comparison: the seconds of algebra that it has left, and whether they were enough."""

    def __init__(self, seconds: float, tolerance: float | None) -> None:
        self.left = seconds
        self.tolerance = tolerance
        self.timed_out = False

    def texts(self, one: str, other: str) -> bool:
        if not one.strip() or not other.strip():
            return False
        if max(len(one), len(other)) > LONGEST:
            return one.strip() == other.strip()
        one, other = normalise(one), normalise(other)
        if not key(one) or not key(other):
            return False
        if key(one) == key(other):
            return True
        choices = self._choices(one, other)
        if choices is not None:
            return choices
        if max(len(one), len(other)) > _LONGEST_FORMULA:
            return False
        if self.nodes(read(one), read(other)):
            return True
        # "1,234" is a number, unless the other side says that it is a list.
        return any(
            _LIST_OR_NUMBER.fullmatch(text) and self.nodes(_as_list(text), read(against))
            for text, against in ((one, other), (other, one))
        )

    def _choices(self, one: str, other: str) -> bool | None:
        """Answers to multiple choice: `(C) 12` is C, and is 12."""
        first, second = (
            # More than one letter is a list of the choices, not a choice.
            None if found and _ANOTHER.search(found[3]) else found
            for found in map(_CHOICE.fullmatch, (one, other))
        )
        if first and second:
            return (first[1] or first[2]) == (second[1] or second[2]) and self.texts(
                first[3], second[3]
            )
        if second:
            return self._choices(other, one)
        if first is None:
            return None
        letter = _LETTER.fullmatch(other)
        if letter:
            return (first[1] or first[2]) == letter[1]
        return self.texts(first[3], other)

    def nodes(self, one: Node, other: Node) -> bool:
        if isinstance(one, Equation) or isinstance(other, Equation):
            return self._equations(one, other)
        if isinstance(one, Group) or isinstance(other, Group):
            return self._groups(one, other)
        return self._leaves(one, other)

    def _equations(self, one: Node, other: Node) -> bool:
        if isinstance(one, Equation) and isinstance(other, Equation):
            if _same_name(one.left, other.left):
                return self.nodes(one.right, other.right)
            renamed = _renamed(one, other)
            if renamed is not None:
                return self.nodes(renamed, other.right)
            if isinstance(one.right, Group) or isinstance(other.right, Group):
                return False
            return self._algebra(one.text, other.text)
        equation, value = (one, other) if isinstance(one, Equation) else (other, one)
        assert isinstance(equation, Equation)
        if isinstance(value, Group) and _names(value):
            return self._coordinates(equation, value)
        zero = isinstance(equation.right, Leaf) and equation.right.text.strip() == "0"
        # "x + y = 0" is a line, not a sum.
        if is_name(equation.left) and not (zero and "+" in equation.left):
            # "S = 2 + 3 = 5" says it twice; "x = 5 = 6" says nothing.
            plain = [side for side in equation.sides[1:-1] if not variables(side)]
            return self.nodes(equation.right, value) and all(
                self.nodes(read(side), equation.right) for side in plain
            )
        # "5 + 3 = 8" is 8, if all of its sides are.
        return not any(map(variables, equation.sides)) and all(
            self.nodes(read(side), value) for side in reversed(equation.sides)
        )

    def _coordinates(self, equation: Equation, values: Group) -> bool:
        """`(x,y) = (1,2)` and `x = 1, y = 2`, each under its name."""
        named = {key(item.left): item.right for item in values.items if isinstance(item, Equation)}
        names = [key(name) for name in equation.left.strip("() ").split(",")]
        right = equation.right
        return (
            isinstance(right, Group)
            and len(right.items) == len(names)
            and set(names) == set(named)
            and all(
                self.nodes(named[name], item) for name, item in zip(names, right.items, strict=True)
            )
        )

    def _groups(self, one: Node, other: Node) -> bool:
        first = one if isinstance(one, Group) else Group("list", (one,), None)
        second = other if isinstance(other, Group) else Group("list", (other,), None)
        if not _same_unit(first.unit, second.unit):
            return False
        for leaf, group in ((one, second), (other, first)):
            # An inequality and the interval that it describes.
            if isinstance(leaf, Leaf) and is_inequality(leaf.text):
                interval = as_interval(leaf.text)
                if group.kind in {"list", "set"}:
                    return False
                if interval is None:
                    return self._algebra(leaf.text, written(group))
                return self.nodes(read(interval), group)
        kinds = {first.kind, second.kind}
        if kinds == {"list", "union"}:
            first, second = _as_union(first), _as_union(second)
            kinds = {first.kind, second.kind}
        if len(first.items) != len(second.items) or len(first.items) > _MOST_ITEMS:
            return False
        if len(kinds) == 1 and first.ordered:
            return self._in_order(first.items, second.items)
        # Values of different names stand in an order.
        if kinds <= {"list", "set", "()"} and _names(first) != _names(second):
            return self._in_order(_by_name(first), _by_name(second))
        if kinds <= {"list", "set"} or kinds in ({"union"}, {"all"}):
            return self._in_any_order(first.items, second.items)
        # Coordinates with and without their brackets.
        return kinds == {"list", "()"} and self._in_order(first.items, second.items)

    def _in_order(self, one: Sequence[Node], other: Sequence[Node]) -> bool:
        return all(self.nodes(*pair) for pair in zip(one, other, strict=True))

    def _in_any_order(self, one: Sequence[Node], other: Sequence[Node]) -> bool:
        """Whether each item of one side has a partner of its own on the other (Kuhn's matching)."""
        partner: dict[int, int] = {}

        def find(item: int, tried: set[int]) -> bool:
            for place in range(len(other)):
                if place not in tried and self.nodes(one[item], other[place]):
                    tried.add(place)
                    if place not in partner or find(partner[place], tried):
                        partner[place] = item
                        return True
            return False

        return all(find(item, set()) for item in range(len(one)))

    def _leaves(self, one: Leaf, other: Leaf) -> bool:
        if not _same_unit(one.unit, other.unit):
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
        # Formulas in other variables are not equal, and reading them takes long.
        if variables(one.text) != variables(other.text) and not any(
            _BOUND.search(text) or _IDENTITIES.search(text) for text in (one.text, other.text)
        ):
            return False
        return self._algebra(one.text, other.text)

    def _numbers(self, one: Number, other: Number, percent: int) -> bool:
        """`percent`: 1 if only `one` has a percent sign, -1 if only `other` has, else 0."""
        if _numbers_equal(one, other, self.tolerance):
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

    def _algebra(self, one: str, other: str) -> bool:
        if self.left <= 0:
            self.timed_out = True
            return False
        # One order for both, so that the answer cannot depend on it.
        verdict, spent = pool.equal(min(one, other), max(one, other), self.left)
        self.left -= spent
        self.timed_out |= verdict is None
        return bool(verdict)


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


def _same_unit(one: str | None, other: str | None) -> bool:
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


def _names(group: Group) -> frozenset[str]:
    """The names in a list of values, if there are several: an order of their own."""
    names = frozenset(key(item.left) for item in group.items if isinstance(item, Equation))
    return names if len(names) > 1 else frozenset()


def _by_name(group: Group) -> Sequence[Node]:
    """The items, in the order of their names where each has its own: x before y."""
    if not _names(group):
        return group.items
    return sorted(
        group.items, key=lambda item: key(item.left) if isinstance(item, Equation) else ""
    )


def _renamed(one: Equation, other: Equation) -> Node | None:
    """The right side of `f(n) = ...` in the variable of an equation `f(x) = ...`."""
    first, second = (_FUNCTION.fullmatch(key(equation.left)) for equation in (one, other))
    if first is None or second is None or first["name"] != second["name"]:
        return None
    if second["variable"] in variables(one.sides[-1]):
        return None
    letter = rf"(?<![\\a-zA-Z]){first['variable']}(?![a-zA-Z])"
    return read(re.sub(letter, second["variable"], one.sides[-1]))


def _same_name(one: str, other: str) -> bool:
    """Equal, or a function and the y that it is drawn as."""
    names = {key(one), key(other)}
    return len(names) == 1 or ("y" in names and any(map(_FUNCTION.fullmatch, names)))


def _as_union(group: Group) -> Group:
    """Inequalities of which any may hold, as a union of intervals."""
    intervals = [as_interval(item.text) if isinstance(item, Leaf) else None for item in group.items]
    if group.kind == "union" or not all(intervals):
        return group
    return Group("union", tuple(read(interval) for interval in intervals if interval))


def _as_list(text: str) -> Group:
    return Group("list", tuple(Leaf(part) for part in text.split(",")))


def written(node: Node) -> str:
    """LaTeX of a node, for the algebra."""
    if isinstance(node, Group):
        if node.kind == "union":
            return r" \cup ".join(map(written, node.items))
        opening, closing = {"set": ("\\{", "\\}"), "list": ("", "")}.get(
            node.kind, (node.kind[:1], node.kind[-1:])
        )
        return opening + ", ".join(map(written, node.items)) + closing
    return node.text
