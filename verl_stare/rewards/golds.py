"""Ground truths as verl's rows hold them: one string, canonical, several alternatives as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_THOUSANDS = re.compile(r"-?\d{1,3}(?:(?:,|\{,\}|,\\!) ?\d{3})+(?:\.\d+)?")
_NUMBER = re.compile(r"([-+]?)0*(\d*)(?:\.(\d*?)0*)?")
_DEGREES = re.compile(r"\s*(?:\^\{?\\circ\}?|°|\\degree)$")


def canonical_gold(text: str) -> str:
    r"""A ground truth in its plainest form: `073` is `73`, `27.0` is `27`, `336^\circ` is `336`.

    Outer dollar signs, surrounding space, a final period and separators of thousands go. What is no
    plain number is otherwise left as it stands.
    """
    text = text.strip()
    while text.endswith(".") and not text.endswith("\\.") and len(text) > 1:
        text = text[:-1].rstrip()
    if len(text) > 2 and text[0] == text[-1] == "$" and "$" not in text[1:-1]:
        text = text[1:-1].strip()
    number = _DEGREES.sub("", text)
    if _THOUSANDS.fullmatch(number):
        number = re.sub(r"[^\d.-]", "", number)
    match = _NUMBER.fullmatch(number)
    if match is None or (not any(match.group(2, 3)) and "0" not in number):
        return text
    sign, whole, fraction = match.groups()
    sign = "-" if sign == "-" and (whole or fraction) else ""
    return f"{sign}{whole or '0'}" + (f".{fraction}" if fraction else "")


def pack_golds(golds: Iterable[str]) -> str:
    """One string for a row's `ground_truth`: the gold, or a JSON list of alternatives.

    Each is made canonical, and repeated ones are left out.
    """
    unique = list(dict.fromkeys(filter(None, map(canonical_gold, golds))))
    if not unique:
        return ""
    return unique[0] if len(unique) == 1 else json.dumps(unique, ensure_ascii=False)


def unpack_golds(ground_truth: object) -> list[str]:
    """The alternatives of a `ground_truth`: of the strings that `pack_golds` gives, and of what
    other datasets hold there (numbers, lists). `None` and blank ones give none."""
    if ground_truth is None:
        return []
    if isinstance(ground_truth, str):
        if ground_truth.lstrip().startswith('["'):
            try:
                listed = json.loads(ground_truth)
            except (ValueError, RecursionError):
                listed = None
            if isinstance(listed, list) and all(isinstance(item, str) for item in listed):
                return unpack_golds(listed)
        return [ground_truth] if ground_truth.strip() else []
    if isinstance(ground_truth, Iterable):
        return [gold for item in ground_truth for gold in unpack_golds(item)]
    return [canonical_gold(str(ground_truth))]
