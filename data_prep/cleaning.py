"""Text as it is compared for duplicates, and problems that cannot be read without their picture."""

import re
import unicodedata
from itertools import product

from verl_stare.rewards import equivalent, unpack_golds

_SPACE = re.compile(r"[\s\u200b\ufeff]+")
_IMAGE_NAME = r"[\w)-]\.(?:png|jpe?g|gif|svg|webp|bmp)\b"
IMAGE = re.compile(
    rf"!\[[^\]]*\]\(|<img\b|\[img\]|\\includegraphics|<image>|https?://|{_IMAGE_NAME}",
    re.IGNORECASE,
)
CHINESE = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


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


def same_answer(one: str, other: str) -> bool:
    """Whether two ground truths have an answer in common, by the rules of the grader."""
    golds = product(unpack_golds(one), unpack_golds(other))
    return any(equivalent(*pair).equal for pair in golds)
