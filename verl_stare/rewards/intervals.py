r"""Inequalities of one variable as intervals: `2 < x \le 5` is `(2,5]`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from verl_stare.rewards.numbers import read_number

_RELATION = re.compile(r"(<|>|\\(?:le|ge|lt|gt)(?![a-zA-Z]))")
# One letter, Greek too, with any subscript; not what has its value already.
_LETTER = (
    r"(?:(?![ei](?!_))[a-zA-Z]|\\(?:alpha|beta|gamma|delta|(?:var)?epsilon|zeta|eta|(?:var)?theta|kappa"
    r"|lambda|mu|nu|xi|rho|sigma|tau|(?:var)?phi|chi|psi|omega)(?![a-zA-Z]))"
)
_VARIABLE = re.compile(rf"{_LETTER}(?: ?_ ?(?:\{{[^{{}}]*\}}|\w))?'*")
_REALS = r"\\(?:mathbb ?\{?R\}?|R)(?![a-zA-Z])"
_EXCEPT = re.compile(
    rf"(?P<variable>{_VARIABLE.pattern}) ?\\ne ?(?P<point>[^<>=,;]+)"
    rf"|{_REALS} ?(?:\\(?:setminus|backslash)|-) ?\\\{{(?P<points>.*)\\\}}"
)
_LESS = {"<": "<", r"\lt": "<", r"\le": r"\le"}
_MORE = {">": "<", r"\gt": "<", r"\ge": r"\le"}


def is_inequality(text: str) -> bool:
    """Whether a normalised text holds an order relation."""
    return _RELATION.search(text) is not None


@dataclass(frozen=True)
class Range:
    """What an inequality leaves to its variable: the ends, and whether they belong to it."""

    variable: str
    low: str = "-\\infty"
    high: str = "\\infty"
    low_closed: bool = False
    high_closed: bool = False

    def __str__(self) -> str:
        opening, closing = "[" if self.low_closed else "(", "]" if self.high_closed else ")"
        return f"{opening}{self.low}, {self.high}{closing}"


def as_interval(text: str) -> str | None:
    """The interval, in LaTeX, that an inequality leaves to its variable; else None."""
    found = as_range(text)
    return None if found is None else str(found)


def as_range(text: str) -> Range | None:
    """The range that a normalised inequality of one variable leaves to it; else None."""
    parts = [part.strip() for part in _RELATION.split(text)]
    sides, relations = parts[::2], parts[1::2]
    if not relations or not all(sides):
        return None
    if all(relation in _MORE for relation in relations):
        sides, relations = sides[::-1], [_MORE[relation] for relation in relations[::-1]]
    elif all(relation in _LESS for relation in relations):
        relations = [_LESS[relation] for relation in relations]
    else:
        return None
    closed = [relation == r"\le" for relation in relations]
    if len(sides) == 3 and _VARIABLE.fullmatch(sides[1]):
        return Range(sides[1], sides[0], sides[2], closed[0], closed[1])
    if len(sides) == 2 and _VARIABLE.fullmatch(sides[0]):
        return Range(sides[0], high=sides[1], high_closed=closed[0])
    if len(sides) == 2 and _VARIABLE.fullmatch(sides[1]):
        return Range(sides[1], low=sides[0], low_closed=closed[0])
    return None


def joined(texts: Sequence[str]) -> str | None:
    """One inequality for two that both hold, `x > 1` and `x < 2`; None for any others."""
    ranges = [found for found in map(as_range, texts) if found is not None]
    if len(texts) != 2 or len(ranges) != 2:
        return None
    low, high = sorted(ranges, key=lambda one: one.low == "-\\infty")
    if low.variable != high.variable or low.high != "\\infty" or high.low != "-\\infty":
        return None
    if low.low == "-\\infty" or high.high == "\\infty":
        return None
    relations = ["\\le " if closed else "<" for closed in (low.low_closed, high.high_closed)]
    return f"{low.low}{relations[0]}{low.variable}{relations[1]}{high.high}"


def without(texts: Sequence[str]) -> str | None:
    r"""The union of intervals that `x \ne 3`, several of these, or `\mathbb{R} \setminus \{1, 3\}`
    describes; else None.

    Several points must be plain numbers, whose order is known.
    """
    matches = [match for match in map(_EXCEPT.fullmatch, texts) if match is not None]
    if not texts or len(matches) < len(texts):
        return None
    if len({(match["variable"] or "").replace(" ", "") for match in matches}) > 1:
        return None
    points = [
        point
        for match in matches
        for written in re.split("[,;]", match["points"] or match["point"])
        for point in _both_signs(written.strip())
    ]
    if any(map(letters, points)) or (len(points) > 1 and None in map(read_number, points)):
        return None
    if len(points) > 1:
        values = {number.value: point for point in points if (number := read_number(point))}
        points = [values[value] for value in sorted(values)]
    ends = ["-\\infty", *points, "\\infty"]
    return r" \cup ".join(f"({low}, {high})" for low, high in itertools.pairwise(ends))


def _both_signs(point: str) -> list[str]:
    value = point.removeprefix("\\pm")
    return [point] if value == point else [value.strip(), f"-{value.strip()}"]


def letters(text: str) -> list[str]:
    """The variables in a formula, commands and constants left aside."""
    return re.findall(
        r"(?<![\\a-zA-Z])(?![ei](?![a-zA-Z]))[a-zA-Z]", re.sub(r"\\[a-zA-Z]+", " ", text)
    )
