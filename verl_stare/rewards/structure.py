r"""An answer's structure: numbers and formulas in lists, tuples, intervals, sets, unions, matrices.

Only the structure is read here; what stands at the leaves is compared by `equivalence`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from verl_stare.rewards.intervals import is_inequality, joined, without
from verl_stare.rewards.latex import matching
from verl_stare.rewards.numbers import read_number
from verl_stare.rewards.units import split_unit

EMPTY = r"\emptyset"
_DEEPEST = 8
_OPENING = {"(": ")", "[": "]", "{": "}"}
_CONNECTOR = re.compile(
    r" ?,? ?(?:\\text ?\{ ?,? ?(?:and|or) ?,? ?\}|(?<![a-zA-Z\\])(?:and|or)(?![a-zA-Z])) ?"
)
_JOINTLY = re.compile(r"(?<![a-zA-Z\\])and(?![a-zA-Z])")
_MATRIX = re.compile(r"\\begin\{([pbvBV]?matrix)\}(.*)\\end\{\1\}", re.DOTALL)
_SCALED = re.compile(
    r"(?P<factor>(?:(?!\\begin|\\end)[^=])*?)(?: |\\cdot|\\times|\*)*"
    r"\\begin\{(?P<name>[pbB]matrix)\}(?P<body>(?:(?!\\begin).)*)\\end\{(?P=name)\}",
    re.DOTALL,
)
_BUILDER = re.compile(r" ?[a-zA-Z] ?(?:\\in ?\\mathbb ?\{?R\}? ?)?[|:](.*)", re.DOTALL)
_DERIVATIVE = re.compile(r"\\frac ?\{ ?d ?[a-zA-Z]? ?\} ?\{ ?d ?[a-zA-Z] ?\}")
_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
_PLUS_MINUS = re.compile(r"\\(pm|mp)(?![a-zA-Z])")
_SEPARATORS = ",;"
_REALS = {r"\mathbb{R}", r"\mathbb R", r"\R"}


_SUBSCRIPT = re.compile(r"_\s*(?:\{[^{}]*\}|\\?\w)|\^\s*(?:-1|\{\s*-1\s*\})(?=\s*\()")
# One way only to match each character, since a failing match tries them all.
_NAME = re.compile(r"(?:\\?[a-zA-Z]|[()+,'|{}\s])+")
# Operations, and constants that have their value already.
_NO_NAME = re.compile(
    r"\\(?:frac|sqrt|int|sum|prod|log|ln|exp|sin|cos|tan|cot|sec|csc|neg|not|pi|ne|to|mapsto"
    r"|implies|Rightarrow|iff)(?![a-zA-Z])|\bnot\b"
    r"|\A\s*[ei]\s*\Z"
)


@dataclass(frozen=True)
class Leaf:
    """A value without structure, and its unit (None where none is written)."""

    text: str
    unit: str | None = None


@dataclass(frozen=True)
class Group:
    """Several values.

    `kind`, where order does not matter: `list`, `set`, `union`, `all` (inequalities that all hold);
    where it does: brackets as written (`()`, `(]`, `[)`, `[]`), `:`, or a matrix and its shape.
    """

    kind: str
    items: tuple[Node, ...]
    unit: str | None = None

    @property
    def ordered(self) -> bool:
        return self.kind not in {"list", "set", "union", "all"}


@dataclass(frozen=True)
class Equation:
    """`name = value` or any other equation, or a membership; `text` is the whole of it."""

    left: str
    right: Node
    text: str
    sides: tuple[str, ...]
    unit: str | None = None


Node = Leaf | Group | Equation


def read(text: str, depth: int = 0) -> Node:
    """The structure of a normalised text. Nested deeper than eight levels, the rest is a leaf."""
    text = text.strip()
    if depth >= _DEEPEST or not text:
        return Leaf(text)
    whole_text = _TEXT.fullmatch(text)
    if whole_text is not None:
        return read(whole_text[1], depth + 1)
    # "x \ne 3" is a condition like another; the reals without a point are a set.
    union = without([text]) if text.startswith("\\") and "\\ne " not in text else None
    if union is not None:
        return read(union, depth + 1)
    items = _items(text)
    if len(items) > 1:
        # Of inequalities it matters whether all hold or any.
        jointly = _JOINTLY.search(text) and any(map(is_inequality, items))
        kind = "all" if jointly else "list"
        one = joined(items) if jointly else None
        if one is not None:
            return Leaf(one)
        return Group(kind, tuple(read(item, depth + 1) for item in items))
    return _single(items[0] if items else text, depth)


def _single(text: str, depth: int) -> Node:
    if text.startswith("\\{") and text.endswith("\\}") and matching(text, 1) == len(text) - 1:
        inner = text[2:-2]
        builder = _BUILDER.fullmatch(inner)
        if builder is not None:
            return read(builder[1], depth + 1)
        if not re.search(r"\||:", inner):
            items = _items(inner, listed=True)
            return Group("set", tuple(read(item, depth + 1) for item in items))
        return Leaf(text)
    if text in _REALS:
        return Group("()", (Leaf("-\\infty"), Leaf("\\infty")))
    matrix = _MATRIX.fullmatch(text)
    if matrix is not None:
        return _matrix(matrix[1], matrix[2], depth)
    bracketed = _bracketed(text, depth)
    if bracketed is not None:
        return bracketed
    exact, *approximations = split_top(text, "≈")
    if approximations and exact:
        # "2\\sqrt{3} ≈ 3.46" gives the exact value; "x ≈ 3.46" has no other.
        named = is_name(exact)
        return read(approximations[-1] if named else exact, depth + 1)
    for separator, kind in ((r"\cup", "union"), ("=", "="), (r"\in ", "="), (":", ":")):
        parts = split_top(text, separator)
        if len(parts) > 1 and all(parts):
            if kind == "=":
                return Equation(parts[0], read(parts[-1], depth + 1), text, tuple(parts))
            return Group(kind, tuple(read(part, depth + 1) for part in parts))
    scaled = _SCALED.fullmatch(text)
    if scaled is not None:
        matrix = _matrix(scaled["name"], scaled["body"], depth)
        return _times(scaled["factor"], matrix) or Leaf(text)
    value, unit = split_unit(text)
    if unit is None:
        return Leaf(text)
    node = read(value, depth + 1)
    return replace(node, unit=node.unit or unit)


def _bracketed(text: str, depth: int) -> Node | None:
    if text[0] not in _OPENING or matching(text, 0) != len(text) - 1 or len(text) < 2:
        return None
    items = _items(text[1:-1], listed=text[0] != "{")
    if len(items) > 1 and text[0] != "{":
        return Group(text[0] + text[-1], tuple(read(item, depth + 1) for item in items))
    return read(text[1:-1], depth + 1)


def _matrix(name: str, body: str, depth: int) -> Group:
    rows = [row.split("&") for row in re.split(r"\\\\(?:\[[^\]]*\])?", body) if row.strip()]
    items = tuple(read(cell, depth + 1) for row in rows for cell in row)
    # Straight lines are a determinant or a norm, all brackets the same.
    kind = name if name in {"vmatrix", "Vmatrix"} else "matrix"
    return Group(f"{kind} {[len(row) for row in rows]}", items)


def _times(factor: str, matrix: Group) -> Group | None:
    """A multiple of a matrix of plain formulas, entry by entry; None if it is no such product."""
    if len(split_top(factor.removeprefix("-"), "+")) > 1 or not factor:
        return None
    if len(split_top(factor.removeprefix("-"), "-")) > 1:
        return None
    items: list[Node] = []
    for item in matrix.items:
        if not isinstance(item, Leaf) or item.unit is not None:
            return None
        text = item.text
        numbers = read_number(factor), read_number(text)
        if numbers[0] is not None and numbers[1] is not None:
            items.append(Leaf(str(numbers[0].value * numbers[1].value)))
        else:
            product = "" if factor == "-" else r" \cdot "
            items.append(Leaf(f"{factor}{product}({text})"))
    return replace(matrix, items=tuple(items))


def _items(text: str, *, listed: bool = False) -> list[str]:
    """The parts of a list at the top level, with `±` written out as two.

    `listed`: it stands in brackets, so that a comma is none of thousands.
    """
    pieces = split_top(text, "," if listed else _SEPARATORS)
    parts = [part for piece in pieces for part in _connected(piece) if part]
    written_out: list[str] = []
    for part in parts:
        # Inside of a set or a tuple it belongs to one of their items.
        if _PLUS_MINUS.search(part) and not _enclosed(split_unit(part)[0]):
            upper = _PLUS_MINUS.sub(lambda sign: "+" if sign[1] == "pm" else "-", part)
            lower = _PLUS_MINUS.sub(lambda sign: "-" if sign[1] == "pm" else "+", part)
            written_out += [upper, lower]
        else:
            written_out.append(part)
    return written_out


def _enclosed(part: str) -> bool:
    if not part:
        return False
    start = 1 if part.startswith("\\{") else 0
    return part[start] in _OPENING and matching(part, start) == len(part) - 1


def _connected(piece: str) -> list[str]:
    return [part.strip() for part in _CONNECTOR.split(piece)]


def split_top(text: str, separators: str) -> list[str]:
    """Split where no bracket is open: at a command or sign, or at any of `,;`.

    A comma between groups of three digits is one of thousands if the text is a number as a whole.
    """
    if separators == ",":
        pattern = re.compile(r"[,;]")
    elif separators == _SEPARATORS:
        if read_number(split_unit(text)[0]) is not None:
            return [text]
        pattern = re.compile(r"[,;]")
    elif separators == "=":
        pattern = re.compile(r"(?<![<>!\\])=")
    else:
        pattern = re.compile(re.escape(separators))
    parts: list[str] = []
    depth = start = 0
    for token in re.finditer(rf"[(\[{{]|[)\]}}]|{pattern.pattern}", text):
        piece = token.group()
        if piece in "([{":
            depth += 1
        elif piece in ")]}":
            depth = max(0, depth - 1)
        elif depth == 0:
            parts.append(text[start : token.start()].strip())
            start = token.end()
    parts.append(text[start:].strip())
    return parts


def is_name(left: str) -> bool:
    """Whether the left side of an equation only names a value: `x`, `f(x)`, `m + n`."""
    plain = _SUBSCRIPT.sub("", _DERIVATIVE.sub("D", left))
    # "|x| = 5" has two solutions.
    return (
        not plain.startswith("|")
        and _NAME.fullmatch(plain) is not None
        and _NO_NAME.search(plain) is None
    )
