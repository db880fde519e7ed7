r"""Inequalities of one variable as intervals: `2 < x \le 5` is `(2,5]`."""

from __future__ import annotations

import re

_RELATION = re.compile(r"(<|>|\\(?:le|ge|lt|gt)(?![a-zA-Z]))")
_VARIABLE = re.compile(r"\\?[a-zA-Z]+(?:_\{?\w+\}?)?")
_LESS = {"<": "<", r"\lt": "<", r"\le": r"\le"}
_MORE = {">": "<", r"\gt": "<", r"\ge": r"\le"}


def is_inequality(text: str) -> bool:
    """Whether a normalised text holds an order relation."""
    return _RELATION.search(text) is not None


def as_interval(text: str) -> str | None:
    """The interval, in LaTeX, that an inequality leaves to its variable; else None."""
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
    low, high = "(-\\infty", "\\infty)"
    if len(sides) == 3 and _VARIABLE.fullmatch(sides[1]):
        return _from(sides[0], relations[0]) + ", " + _to(sides[2], relations[1])
    if len(sides) == 2 and _VARIABLE.fullmatch(sides[0]):
        return f"{low}, {_to(sides[1], relations[0])}"
    if len(sides) == 2 and _VARIABLE.fullmatch(sides[1]):
        return f"{_from(sides[0], relations[0])}, {high}"
    return None


def _from(value: str, relation: str) -> str:
    return ("(" if relation == "<" else "[") + value


def _to(value: str, relation: str) -> str:
    return value + (")" if relation == "<" else "]")
