"""Whether two answers are the same: exactly where that can be said at once, else by algebra.

Symmetric in its two arguments. The conventions are a table in the README of this folder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from verl_stare.rewards.choices import as_choice, as_letter, same_letters
from verl_stare.rewards.extract import LONGEST
from verl_stare.rewards.intervals import as_interval, as_range, is_inequality, without
from verl_stare.rewards.latex import key, normalise, variables
from verl_stare.rewards.structure import EMPTY, Equation, Group, Leaf, Node, is_name, read
from verl_stare.rewards.values import Values, same_unit

# Seconds for the algebra of one comparison, whatever the answers are.
TIME_LIMIT = 3.0
_LONGEST_FORMULA = 1_000
_MOST_ITEMS = 64

_FUNCTION = re.compile(r"(?P<name>[a-zA-Z])\((?P<variable>[a-z])\)")
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
    values = Values(time_limit, tolerance)
    equal = _Comparison(values).texts(one, other)
    return Verdict(equal, values.timed_out and not equal, time_limit - values.left)


class _Comparison:
    """Compares structures, and has their leaves compared by `values`."""

    def __init__(self, values: Values) -> None:
        self.values = values

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
        """Whether answers to multiple choice are the same; None if they are no such answers."""
        first, second = as_choice(one), as_choice(other)
        if first is not None and second is not None:
            return first.letter == second.letter and self.texts(first.text, second.text)
        if second is not None:
            return self._choices(other, one)
        if first is None:
            return same_letters(one, other) or None
        letter = as_letter(other)
        return self.texts(first.text, other) if letter is None else first.letter == letter

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
            return self.values.algebra(one.text, other.text)
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

    def _leaves(self, one: Leaf, other: Leaf) -> bool:
        ranges = as_range(one.text), as_range(other.text)
        if ranges[0] is not None and ranges[1] is not None:
            return (
                same_unit(one.unit, other.unit)
                and key(ranges[0].variable) == key(ranges[1].variable)
                and self.nodes(read(str(ranges[0])), read(str(ranges[1])))
            )
        return self.values.same(one, other)

    def _groups(self, one: Node, other: Node) -> bool:
        first = one if isinstance(one, Group) else Group("list", (one,), None)
        second = other if isinstance(other, Group) else Group("list", (other,), None)
        if not same_unit(first.unit, second.unit):
            return False
        for leaf, group in ((one, second), (other, first)):
            if not isinstance(leaf, Leaf):
                continue
            if leaf.text == EMPTY:
                # The set that holds the empty set is not empty.
                return False
            # An inequality and the interval, or intervals, that it describes.
            union = without([leaf.text])
            if union is not None and group.kind in {"union", "list"}:
                ranges = _as_union(group)
                return ranges.kind == "union" and self.nodes(read(union), ranges)
            if is_inequality(leaf.text):
                interval = as_interval(leaf.text)
                if group.kind in {"list", "set"}:
                    return False
                if interval is None:
                    return self.values.algebra(leaf.text, written(group))
                return self.nodes(read(interval), group)
        kinds = {first.kind, second.kind}
        if kinds == {"list", "union"}:
            first, second = _as_union(first), _as_union(second)
            kinds = {first.kind, second.kind}
        if len(first.items) != len(second.items) or len(first.items) > _MOST_ITEMS:
            return False
        if len(kinds) == 1 and first.ordered:
            if first.kind == ":" and not _same_digits(first, second):
                return False
            return self._in_order(first.items, second.items)
        # Values of different names stand in an order.
        if kinds <= {"list", "set", "()"} and _names(first) != _names(second):
            return self._in_order(_by_name(first), _by_name(second))
        if kinds <= {"list", "set"} or kinds in ({"union"}, {"all"}):
            return self._in_any_order(first.items, second.items)
        # Coordinates with and without their brackets, or as a vector.
        return (
            kinds == {"list", "()"} or ("()" in kinds and any(map(_is_vector, kinds)))
        ) and self._in_order(first.items, second.items)

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
    """A list of intervals, or of inequalities of which any may hold, as their union."""
    if group.kind == "union":
        return group
    union = without([item.text if isinstance(item, Leaf) else "" for item in group.items])
    if union is not None:
        found = read(union)
        return found if isinstance(found, Group) else group
    items = [_as_range(item) for item in group.items]
    return group if None in items else Group("union", tuple(item for item in items if item))


def _as_range(node: Node) -> Node | None:
    if isinstance(node, Leaf):
        interval = as_interval(node.text)
        return None if interval is None else read(interval)
    if isinstance(node, Group) and node.kind in {"()", "(]", "[)", "[]"}:
        return node if len(node.items) == 2 else None
    return None


def _is_vector(kind: str) -> bool:
    """Whether it is a matrix of one row or one column, of which each makes a tuple."""
    shape = re.fullmatch(r"matrix \[(.*)\]", kind)
    return shape is not None and (set(shape[1].split(", ")) == {"1"} or "," not in shape[1])


def _same_digits(one: Group, other: Group) -> bool:
    """In `1:02` the zero has its place: `1:2` is another time."""
    pairs = zip(one.items[1:], other.items[1:], strict=True)
    return all(
        len(first.text) == len(second.text)
        for first, second in pairs
        if isinstance(first, Leaf) and isinstance(second, Leaf)
        if first.text.isdecimal() and second.text.isdecimal()
        if first.text.startswith("0") != second.text.startswith("0")
    )


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
