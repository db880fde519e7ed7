r"""Finding `\boxed{...}` in a text of any length, in one pass."""

from __future__ import annotations

import re

# `\\`, `\{` and `\}` come before the braces so that an escaped brace opens and closes nothing.
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_TOKEN = re.compile(r"\\(?:boxed|fbox)\s*\{|\\[\\{}]|[{}]")


def last_boxed(text: str) -> str | None:
    r"""The content of the last complete `\boxed{...}` (or `\fbox{...}`), braces matched.

    A box that is never closed is passed over, and so are the braces that it leaves open. Of nested
    boxes the outermost counts. One pass, whatever the text is.
    """
    first = _BOX.search(text)
    if first is None:
        return None
    open_braces: list[tuple[bool, int]] = []
    found: tuple[int, int] | None = None
    for token in _TOKEN.finditer(text, first.start()):
        piece = token.group()
        if piece == "}":
            if open_braces:
                is_box, start = open_braces.pop()
                if is_box:
                    found = (start, token.start())
        elif piece[-1] == "{" and piece != "\\{":
            open_braces.append((piece != "{", token.end()))
    return None if found is None else text[slice(*found)]
