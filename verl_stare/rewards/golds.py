"""The right answers as they stand in a parquet file: one canonical text, or several alternatives.

A ground truth is one string in every file, whatever the source had (a float, ``073``, a JSON
list), so that files concatenate. Several alternatives are a JSON list of strings in that string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

_DEGREES = re.compile(r"(-?[0-9][0-9.,]*)\s*(?:\^\s*\\circ|\^\s*\{\s*\\circ\s*\}|°)")
_THOUSANDS = re.compile(r"-?[0-9]{1,3}(?:(?:,|\{,\}|,\\!)[0-9]{3})+(?:\.[0-9]+)?")
_SEPARATOR = re.compile(r",\\!|\{,\}|,")
_INTEGER = re.compile(r"(-?)0*([0-9]+)(?:\.0*)?")


def canonical_gold(text: str) -> str:
    r"""The gold `text` in the form that all files share.

    ``073`` becomes ``73``, ``27.0`` becomes ``27``, ``336^\circ`` becomes ``336``, ``1,234``,
    ``1{,}234`` and ``10,\!080`` lose their separators; a ``$...$`` around the whole, a full stop
    at the end and white space around go. Anything else is returned as it stands: what equals what
    is the grader's business.
    """
    text = _bare(text)
    if match := _DEGREES.fullmatch(text):
        text = match[1]
    if _THOUSANDS.fullmatch(text):
        text = _SEPARATOR.sub("", text)
    if match := _INTEGER.fullmatch(text):
        text = match[1] + match[2] if match[2] != "0" else "0"
    return text


def _bare(text: str) -> str:
    """`text` without what is wrapped around it, however often."""
    while True:
        before = text
        text = text.strip()
        if text.endswith(".") and not text.endswith(".."):
            text = text[:-1]
        for mark in ("$$", "$"):
            inner = text[len(mark) : -len(mark)]
            wrapped = text.startswith(mark) and text.endswith(mark) and len(text) >= 2 * len(mark)
            if wrapped and "$" not in inner and not inner.endswith("\\"):
                text = inner
                break
        if text == before:
            return text


def pack_golds(golds: Sequence[str]) -> str:
    """One ground truth for `golds`, of which any one is a right answer.

    Each is made canonical; repeated and empty ones are dropped, the order is kept.

    Returns:
        the gold itself if there is one, a JSON list of strings if there are several, "" if none.
    """
    distinct = [gold for gold in dict.fromkeys(map(canonical_gold, golds)) if gold]
    # A single gold that itself reads as such a list has to be packed to come back as it was.
    if len(distinct) == 1 and _unpack(distinct[0]) is None:
        return distinct[0]
    return json.dumps(distinct, ensure_ascii=False) if distinct else ""


def unpack_golds(ground_truth: object) -> list[str]:
    """The alternatives in a ground truth: the inverse of `pack_golds`.

    Of what other datasets hold there too: numbers, and lists of alternatives. Blank text and None
    give none.
    """
    if ground_truth is None:
        return []
    if isinstance(ground_truth, str):
        packed = _unpack(ground_truth)
        return packed if packed is not None else [ground_truth] if ground_truth.strip() else []
    if isinstance(ground_truth, bytes):
        return unpack_golds(ground_truth.decode("utf-8", "replace"))
    if hasattr(ground_truth, "tolist"):  # NumPy's
        return unpack_golds(ground_truth.tolist())  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(ground_truth, float) and ground_truth.is_integer():
        return [str(int(ground_truth))]
    if isinstance(ground_truth, Iterable):
        return [gold for entry in ground_truth for gold in unpack_golds(entry)]
    return [canonical_gold(str(ground_truth))]


def _unpack(text: str) -> list[str] | None:
    if not text.startswith("["):
        return None
    try:
        golds = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return golds if golds and all(isinstance(gold, str) for gold in golds) else None
