"""Text as it is compared for duplicates, and problems that cannot be read without their picture."""

import re
import unicodedata
from fractions import Fraction

from verl_stare.rewards.golds import unpack_golds

_SPACE = re.compile(r"[\s\u200b\ufeff]+")
_IMAGE_NAME = r"[\w)-]\.(?:png|jpe?g|gif|svg|webp|bmp)\b"
IMAGE = re.compile(
    rf"!\[[^\]]*\]\(|<img\b|\[img\]|\\includegraphics|<image>|https?://|{_IMAGE_NAME}",
    re.IGNORECASE,
)
CHINESE = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")

_PLAIN_FRACTION = re.compile(r"(-?)\\frac\{?([0-9]+)\}?\{?([0-9]+)\}?")
_QUOTIENT = re.compile(r"-?[0-9]+/[0-9]+")
_DECIMAL = re.compile(r"-?[0-9]*\.?[0-9]+")
# Spacing, sizes of fractions and brackets: how an answer looks, not what it is.
_LOOKS = re.compile(r"\\left|\\right|\\[,;:! ]|\s|\$|\\(?=[dt]frac)[a-z]")


def text_key(text: str) -> str:
    """`text` without white space: mirrors of a problem mostly differ in that alone."""
    return _SPACE.sub("", unicodedata.normalize("NFC", text))


def needs_image(problem: str) -> str | None:
    """The link to, or the name of, an image in `problem`; None if it stands without one."""
    match = IMAGE.search(problem)
    return problem[max(0, match.start() - 20) : match.end() + 60] if match else None


def is_chinese(text: str) -> bool:
    """Whether `text` has Chinese characters."""
    return CHINESE.search(text) is not None


def answer_values(ground_truth: str) -> frozenset[Fraction | str]:
    """The golds of a ground truth, so that those that are plainly the same are equal.

    Numbers are compared as numbers, all else as text without its looks. It need not see that two
    forms are equal, only never take different answers for one: rows whose answers differ for it
    are left out.
    """
    return frozenset(_value(gold) for gold in unpack_golds(ground_truth))


def _value(gold: str) -> Fraction | str:
    gold = _LOOKS.sub(lambda match: "\\" if match[0] in ("\\d", "\\t") else "", gold)
    if match := _PLAIN_FRACTION.fullmatch(gold):
        braced = gold.count("{") == 2
        digits = len(match[2]) == len(match[3]) == 1
        if braced or digits:
            gold = f"{match[1]}{match[2]}/{match[3]}"
    number = _QUOTIENT.fullmatch(gold) or _DECIMAL.fullmatch(gold)
    # Python refuses to read integers of more than 4300 digits.
    if number and len(gold) < 1000 and not re.search(r"/0+$", gold):
        return Fraction(gold)
    return gold
