"""Answers to multiple choice: `(C) 12` is C, and is 12; `ACD` is A, C and D."""

from __future__ import annotations

import re
from dataclasses import dataclass

# What follows is no formula that goes on: not "(A) + 5", "(A)x", "(A)^2", "B.5" or "A:B".
_CHOICE = re.compile(
    r"(?:\\text ?\{ ?)?(?:\( ?([A-J]) ?\)|([A-J])[.:)](?=[ }]))(?: ?\}| |(?=\d)) ?"
    r"(?![+*/^=_]|- )(\S.*)",
    re.DOTALL,
)
_LETTER = re.compile(r"\(?\s*(?:\\text\s*\{\s*)?\(?\s*([A-J])\s*[.)]?\s*\}?\s*\)?")
_ANOTHER = re.compile(r"\(\s*[A-J]\s*\)|\b[A-J][.:)](?!\S)")
_SEVERAL = re.compile(r"[A-J]{2,10}")
_WRAPPING = re.compile(r"\\text(?![a-zA-Z])|\\?[{}]|[()]")
_BETWEEN = re.compile(r"[,;]|(?<![a-zA-Z])and(?![a-zA-Z])")


@dataclass(frozen=True)
class Choice:
    """A letter, and what was chosen."""

    letter: str
    text: str


def as_choice(text: str) -> Choice | None:
    """A choice that is written with its letter and its text, as in `(C) 12`."""
    found = _CHOICE.fullmatch(text)
    # More than one letter is a list of the choices, not a choice.
    if found is None or _ANOTHER.search(found[3]):
        return None
    return Choice(found[1] or found[2], found[3])


def as_letter(text: str) -> str | None:
    """The letter of `C`, `(C)` or `\\text{C}`."""
    found = _LETTER.fullmatch(text)
    return None if found is None else found[1]


def same_letters(one: str, other: str) -> bool:
    """Whether both are the same letters, in any order: `ACD` and `A, C, D`."""
    first, second = _letters(one), _letters(other)
    return first is not None and first == second


def _letters(text: str) -> list[str] | None:
    plain = _WRAPPING.sub("", text).strip()
    if _SEVERAL.fullmatch(plain):
        return sorted(plain)
    parts = [part.strip() for part in _BETWEEN.split(plain)]
    parts = [part for part in parts if part]
    return sorted(parts) if len(parts) > 1 and all(map(_LETTER.fullmatch, parts)) else None
