"""Answers to multiple choice: `(C) 12` is C, and is 12; `ACD` is A, C and D."""

from __future__ import annotations

import re
from dataclasses import dataclass

_CHOICE = re.compile(
    r"(?:\\text\s*\{\s*)?(?:\(\s*([A-J])\s*\)|([A-J])[.:)])\s*\}?\s*(\S.*)", re.DOTALL
)
_LETTER = re.compile(r"\(?\s*(?:\\text\s*\{\s*)?\(?\s*([A-J])\s*[.)]?\s*\}?\s*\)?")
_ANOTHER = re.compile(r"\(\s*[A-J]\s*\)|\b[A-J][.:)](?!\S)")
_SEVERAL = re.compile(r"(?:\\text\s*\{\s*)?([A-J]{2,10})\s*\}?")
_LISTED = re.compile(r"[A-J](?:(?:[,;] ?(?:and )?| and )[A-J])+")


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
    """Whether `ACD` on one side is `A, C, D` on the other, in any order."""
    for together, listed in ((one, other), (other, one)):
        found = _SEVERAL.fullmatch(together)
        if found is not None and _LISTED.fullmatch(listed):
            return sorted(found[1]) == sorted(re.findall("[A-J]", listed))
    return False
