r"""LaTeX and plain text of an answer in one spelling: `\dfrac12` and `\frac{1}{2}` alike."""

from __future__ import annotations

import re
from functools import lru_cache

_CHARACTERS = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∗": "*",
        "÷": "/", "π": r"\pi ", "∞": r"\infty ", "°": r"^\circ ", "º": r"^\circ ", "≤": r"\le ",
        "≥": r"\ge ", "≠": r"\ne ", "∪": r"\cup ", "∩": r"\cap ", "∅": r"\emptyset ", "±": r"\pm ",
        "√": r"\sqrt ", "∈": r"\in ", "½": r"\frac{1}{2}", "…": r"\ldots ",
        "，": ",", "；": ";", "：": ":", "（": "(", "）": ")", "＝": "=", "。": ".", "、": ",",
        "％": "%", "′": "'", "’": "'", "⁄": "/", "→": r"\to ", "θ": r"\theta ", "α": r"\alpha ",
        "β": r"\beta ", "γ": r"\gamma ", "λ": r"\lambda ", "μ": r"\mu ", "ω": r"\omega ",
        "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u3000": " ", "\u200b": "", "\x00": "",
        "\ufeff": "", "Ω": r"\Omega ", "Å": r"\AA ",
    }
)  # fmt: skip


def _ordinal(written: re.Match[str]) -> str:
    r"""`3^{rd}` is third; `3^{st}` is a power."""
    number, ending = written.groups()
    last = number[-1] if number[-2:] not in {"11", "12", "13"} else "0"
    right = {"1": "st", "2": "nd", "3": "rd"}.get(last, "th")
    return rf"{number} \text{{{ending}}}" if ending == right else written[0]


_ROMAN = r"(?:text|textrm|mbox|hbox|mathrm|operatorname\*?)"
_REWRITES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"\s+", " "),
        # Size and spacing say nothing of the value. A thousands comma may carry a `\!`.
        (r"\\(?:(?:display|text|script)style|(?:no)?limits|bf|rm|it|boldmath)(?![a-zA-Z])", ""),
        (r"\\left\s*\.|\\right\s*\.", ""),
        (r"\\(?:left|right|[bB]igg?[lrm]?)(?![a-zA-Z])", ""),
        (r"\\phantom\{[^{}]*\}", ""),
        (r"\{,\}|,\s*\\!\s*", ","),
        (r"(?<!\\)\\!", ""),
        (r"\\[hv]space\*?\s*\{[^{}]*\}", " "),
        # A wide space between two equations parts them.
        (
            r"(=[^=,;]*[^\s=,;:&\\<>+*/^({\[-]) ?"
            r"(?:\\q?quad(?![a-zA-Z]) ?)+(?=[a-zA-Z](?:_\w)? ?=)",
            r"\1, ",
        ),
        (r"(?<!\\)\\[,;: ]|\\q?quad(?![a-zA-Z])|\\(?:thin|med|thick)?space(?![a-zA-Z])|~", " "),
        (r"\\[dtc]frac(?![a-zA-Z])", r"\\frac"),
        (r"\\[dt]binom(?![a-zA-Z])", r"\\binom"),
        (r"<=|\\le(?:q|qslant)(?![a-zA-Z])", r"\\le "),
        (r">=|\\ge(?:q|qslant)(?![a-zA-Z])", r"\\ge "),
        (r"\\not\s*\\in(?![a-zA-Z])", r"\\notin "),
        (r"\\not\s*=", r"\\ne "),
        (r"\\in(?![a-zA-Z])", r"\\in "),
        (r"\\colon(?![a-zA-Z])", ":"),
        # A vector; without a comma it is a mean.
        (
            r"\\langle((?:[^\\,]|\\(?!langle|rangle))*,(?:[^\\]|\\(?!langle|rangle))*)\\rangle"
            r"(?![a-zA-Z])",
            r"(\1)",
        ),
        (r"!=|\\neq?(?![a-zA-Z])", r"\\ne "),
        (r"\\rightarrow(?![a-zA-Z])", r"\\to "),
        (r"\\(?:c?dots|dotsc|dotsb)(?![a-zA-Z])", r"\\ldots"),
        (r"\.\.\.", r"\\ldots "),
        (r"\\(?:varnothing|\{\s*\\\}|O)(?![a-zA-Z])|^\s*\{\s*\}\s*$", r"\\emptyset"),
        (r"\\lbrace(?![a-zA-Z])", r"\\{"),
        (r"\\rbrace(?![a-zA-Z])", r"\\}"),
        (r"\\l[vV]ert|\\r[vV]ert|\\[lr]?vert|\\mid", "|"),
        (r"\\prime", "'"),
        (r"\^\s*\{\s*('(?: ?')*)\s*\}|\^\s*('+)", r"\1\2"),
        (r"\^\s*\{\s*\\circ\s*\}|\^\s*\\circ(?![a-zA-Z])|\\degrees?(?![a-zA-Z])", "°"),
        (r"\\%|\\percent", "%"),
        (rf"\\{_ROMAN}\s*\{{\s*(e|i|d|ln|log|sin|cos|tan)\s*\}}", r" \1 "),
        (r"\\(?:mathbf|boldsymbol|mathit|mathsf|mathcal|bm)(?![a-zA-Z])", ""),
        (rf"\\(?:{_ROMAN}|text(?:bf|it|sf|up)|emph)(?![a-zA-Z])", r"\\text"),
        (
            r"[(\[]\s*\\begin\{array\}\s*\{[lcr|\s]*\}(.*?)\\end\{array\}\s*[)\]]",
            r"\\begin{pmatrix}\1\\end{pmatrix}",
        ),
        (r"\\(?:begin|end)\{(?:array|aligned|align\*?|gathered|equation\*?)\}(?:\{[lcr|]*\})?", ""),
        (r"\{([^{}]*)\\choose(?![a-zA-Z])([^{}]*)\}", r"\\binom{\1}{\2}"),
        (r"(?<=[,(\[]) ?\+ ?(?=\\infty)", ""),
        (r"\^ ?\(([^()]*)\)", r"^{\1}"),
        (r"\\lg(?![a-zA-Z])", r"\\log_{10} "),
        # Arguments without braces.
        (r"\\frac ?(\\[a-zA-Z]+) ?(\d|\\[a-zA-Z]+|[a-zA-Z](?![a-zA-Z]))", r"\\frac{\1}{\2}"),
        (r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"),
        (r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{"),
        (r"\\frac\s*([a-zA-Z])\s*([a-zA-Z0-9])(?![a-zA-Z])", r"\\frac{\1}{\2}"),
        (r"(\\frac\s*\{[^{}]*\})\s*(\d|[a-zA-Z](?![a-zA-Z]))", r"\1{\2}"),
        (r"\\sqrt\s*(\d+(?:\.\d+)?|[a-zA-Z](?![a-zA-Z]))", r"\\sqrt{\1}"),
        (r"\*\*", "^"),
        (r"\\(?:approx|simeq|thickapprox)(?![a-zA-Z])", "≈"),
        (r"(?i)^\\text ?\{ ?(?:the )?(?:(?:final|correct) )?answer is ?:? ?\} ?(?=\S)", ""),
        (r"(?i)^(\\text ?\{ ?)?(?:the )?(?:(?:final|correct) )?answer is ?:? (?=\S)", r"\1"),
        (r"^(?:\\text\s*\{\s*)?(?:about|approximately|approx\.?)(?![a-zA-Z])\s*\}?", ""),
        (r"^(\d+) ?\^ ?\{? ?(?:\\text ?\{ ?)?(st|nd|rd|th) ?\}{0,2}$", _ordinal),
        # A sign or a point belongs to an exponent: in "2^-3", and in "x^0.5".
        (r"\^ ?(-(?:\d+(?:\.\d+)?|[a-zA-Z](?![a-zA-Z]))|\d+\.\d+)", r"^{\1}"),
        (r"^\s*[=≈]", ""),
        (r"(?i)^(?:option|choice)\s+(?=\(?[A-J]\)?$)", ""),
        (r"(?i)(?<![a-z])([ap])\.?m\.?(?![a-z.])(?<=[m.])", r"\1m"),
        *[
            (
                rf"(?<=[\d}}])\s*(\\text\s*\{{)?\s*{name}(?![a-zA-Z])\s*",
                rf" \\times 10^{{{power}}} \1",
            )
            for name, power in (("thousand", 3), ("million", 6), ("billion", 9), ("trillion", 12))
        ],
        (r"\\text\s*\{\s*\}", " "),
        (r"(?<!\\)\\[()\[\]]", " "),
        (r"(?<![\\a-zA-Z])log(2|10)(?=\()", r"\\log_{\1}"),
        # As programs and plain text write functions and constants.
        (r"(?<![\\a-zA-Z.])(?:np|numpy|math|sympy|sp)\.(?=[a-zA-Z])", ""),
        (r"(?<![\\a-zA-Z])a(?=(?:sin|cos|tan)h?\()", r"\\arc"),
        (
            r"(?<![\\a-zA-Z])(arc(?:sin|cos|tan)|(?:sin|cos|tan)h?|cot|sec|csc|ln|log|exp|sqrt|pi|infty)"
            r"(?![a-zA-Z])",
            r"\\\1",
        ),
        (r"(?<![\\a-zA-Z])(?:infinity|inf|oo)(?![a-zA-Z])", r"\\infty"),
        (r"\\sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}"),

        (r"\s+", " "),
    ]
]  # fmt: skip
# Of wrappers around an answer; more is no answer, and would take time.
_LAYERS = 8
_GREEK = re.compile(
    r"(?:var)?(?:alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|rho|sigma"
    r"|tau|upsilon|phi|chi|psi|omega)",
    re.IGNORECASE,
)
# Long texts are not remembered.
_SHORT = 200
_SINGLE_BRACES = re.compile(r"(?<=[\^_])\{\s*(\w)\s*\}")
_BETWEEN_DIGITS = re.compile(r"(?<=\d) (?=\d)")
_RAISED = re.compile(r"[⁰¹²³⁴-⁹⁻]+")
_LOWERED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_BRACKETED = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
# Of unions and memberships, with what stands between.
_PIECES = re.compile(r"(\\cup ?|\\in ?(?![a-zA-Z]))")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+")
_BUILDER = re.compile(r" ?[a-zA-Z] ?[|:]")
_FENCES = re.compile(r"^```\w*\s*|\s*```$|^`|`$")
_EMPHASIS = re.compile(r"^\*\*([^*]*)\*\*$")
_COMMAND = re.compile(r"(\\[a-zA-Z]+) (?=[a-zA-Z])")


def normalise(text: str) -> str:
    """One spelling of an answer; its value, units and structure stay as they are.

    Lone surrogates become `?` and NULs go. Linear in the length of the text.
    """
    return _normalised(text) if len(text) <= _SHORT else _normalised.__wrapped__(text)


@lru_cache(maxsize=4096)
def _normalised(text: str) -> str:
    text = text.encode("utf-8", "replace").decode().translate(_CHARACTERS)
    text = _RAISED.sub(lambda run: "^{" + run[0].translate(_LOWERED) + "}", text)
    text = _EMPHASIS.sub(r"\1", _FENCES.sub("", text.strip()))
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    text = _unwrap(text.strip())
    return "".join(map(_inward, _PIECES.split(text))) if "]" in text or "[" in text else text


def _inward(piece: str) -> str:
    """`]0, 1]` as `(0, 1]`."""
    inner = piece.strip()
    outward = inner.startswith("]") or inner.endswith("[")
    if not outward or len(inner) < 2 or inner[-1] not in "[])" or inner[0] not in "[](":
        return piece
    if re.search(r"[\[\]]", inner[1:-1]) or not re.search("[,;]", inner[1:-1]):
        return piece
    opening = "(" if inner[0] == "]" else inner[0]
    return opening + inner[1:-1] + (")" if inner[-1] == "[" else inner[-1])


def key(text: str) -> str:
    """What two spellings of the same formula share: no spaces, no braces around one character."""
    # Two numbers side by side are not one.
    text = _BETWEEN_DIGITS.sub("\x01", _SINGLE_BRACES.sub(r"\1", text))
    # The space after a command ends its name.
    text = _COMMAND.sub("\\1\x00", text).replace(" ", "")
    text = text.replace("\x00", " ").replace("\x01", " ")
    return text.replace(r"\text", "").replace(r"\cdot", "*").replace(r"\times", "*")


def variables(text: str) -> frozenset[str]:
    """Letters, Greek ones too, of a normalised formula; not e, i, d or the names of functions."""
    letters = re.findall(r"\\([a-zA-Z]+)|([a-zA-Z])", text.replace("\\text", " "))
    return frozenset(
        letter or command for command, letter in letters if letter or _GREEK.fullmatch(command)
    ) - {"e", "i", "d"}


def _unwrap(text: str) -> str:
    """Take off what surrounds a whole answer: dollar signs, emphasis, a final period, a box."""
    for _ in range(_LAYERS):
        before = text
        text = text.strip()
        if text.startswith("*") and text.endswith("*"):
            text = text.strip("*").strip()
        # A period ends a sentence, and a decimal point has a digit before it: "18." is 18.
        if text[-1:] in {".", ",", ";", ":"} and not text.endswith("\\,"):
            text = text[:-1]
        for opening in (r"\boxed{", r"\fbox{", "{"):
            if text.startswith(opening) and matching(text, len(opening) - 1) == len(text) - 1:
                inner = text[len(opening) : -1]
                if opening == "{" and _listed(inner):
                    return rf"\{{{_dollars(inner)}\}}"
                text = inner
        if text == before:
            break
    return _dollars(text)


def _listed(inner: str) -> bool:
    """Whether braces hold several values or a condition, so that they are a set's."""
    outside = _GROUPED.sub("", _BRACKETED.sub("", inner))
    return "," in outside or _BUILDER.match(inner) is not None


def _dollars(text: str) -> str:
    """Drop the signs that delimit formulas; keep a leading one that is money, as `\\$`."""
    if "$" not in text:
        return text
    money = re.match(r"\\\$|-?\$(?=\s*-?[\d.])", text) is not None and (
        text.startswith("\\$") or text.count("$") == 1
    )
    plain = " ".join(text.replace("\\$", "").replace("$", " ").split())
    return ("\\$" if money else "") + plain.strip().rstrip(".,;").strip()


def matching(text: str, start: int) -> int:
    """Index of the bracket that closes the one at `start`, or -1. Intervals may mix `(` and `]`."""
    depth = 0
    for index in range(start, len(text)):
        character = text[index]
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth == 0:
                return index
    return -1
