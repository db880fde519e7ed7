"""Ways in which a model writes a right answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

_FRACTION = re.compile(r"(-?)\\frac\{(\d+)\}\{(\d+)\}")


def renderings(gold: str) -> Iterator[tuple[str, str]]:
    """Name and response, at least six for every ground truth."""
    plain = " ".join(gold.split())
    yield "boxed", rf"\boxed{{{gold}}}"
    yield "dollars in a box", rf"\boxed{{${gold}$}}"
    yield "display style", rf"\boxed{{\displaystyle {gold}}}"
    yield "trailing period", rf"\boxed{{{gold}.}}"
    yield "parentheses", rf"The answer is \({plain}\)."
    yield "bold marker", f"**Answer:** {plain}"
    yield "spaces", rf"\boxed{{ {plain} }}"
    if takes_unit(gold):
        yield "unit in text", rf"\boxed{{{gold} \text{{ cm}}}}"
        yield "roman unit", rf"\boxed{{{gold}~\mathrm{{cm}}}}"
    if r"\frac" in gold:
        for style in ("dfrac", "tfrac"):
            yield style, rf"\boxed{{{gold.replace('frac', style)}}}"
    if re.fullmatch(r"-?\d{4,}", gold):
        grouped = f"{int(gold):,}"
        yield "thousands", rf"\boxed{{{grouped}}}"
        yield "thousands in braces", rf"\boxed{{{grouped.replace(',', '{,}')}}}"
    if re.fullmatch(r"-?\d+", gold):
        yield "decimal", rf"\boxed{{{gold}.0}}"
        yield "as a fraction", rf"\boxed{{\frac{{{2 * int(gold)}}}{{2}}}}"
    if re.fullmatch(r"-?\d*\.\d+", gold):
        exact = Fraction(gold)
        yield "as a fraction", rf"\boxed{{\frac{{{exact.numerator}}}{{{exact.denominator}}}}}"
    fraction = _FRACTION.fullmatch(gold)
    if fraction:
        sign, top, bottom = fraction.groups()
        yield "slash", rf"\boxed{{{sign}{top}/{bottom}}}"
        exact = Fraction(int(top), int(bottom))
        if 10**12 % exact.denominator == 0:
            yield "decimal", rf"\boxed{{{sign}{float(exact):.12g}}}"
    if "(" in gold and r"\left" not in gold:
        sized = gold.replace("(", r"\left(").replace(")", r"\right)")
        if sized.count("(") == sized.count(")"):
            yield "sized brackets", rf"\boxed{{{sized}}}"


def takes_unit(gold: str) -> bool:
    """Not a word or letter, and no unit of its own."""
    return not re.search(r"\\text|\\mbox|\$", gold)
