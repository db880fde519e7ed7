r"""Training rows that hold a problem of an evaluation set, found by the word 13-grams they share.

Words are runs of letters, runs of digits, and single Chinese characters, in lower case after
Unicode's compatibility normalisation. LaTeX is looked through: ``$``, ``\left``, ``\right``,
``\text`` and its like and the looks of a fraction make no word, nor does any sign; the name of
every other command is one word (``\frac12`` is *frac 1 2*).

An evaluation item overlaps a row if the row has more than `threshold` of the item's different
13-grams. An item that is shorter has to be in the row as a whole; if it has less than `MIN_WORDS`
words it says too little to be looked for inside another problem, and only a row of exactly these
words is held to be it.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

N = 13
MIN_WORDS = 8
_UNSEEN = re.compile(
    r"\\(?:left|right|big+[lrm]?|text(?:bf|it|rm)?|mathrm|mathbf|operatorname|displaystyle|limits"
    r"|quad|qquad)(?![a-z])",
)
# An argument without braces is one digit: \frac12 is a half.
_FRACTION = re.compile(r"\\[dtc]?frac(?![a-z])(?:\s*(\d))?")
_WORD = re.compile(r"[^\W\d_\u3400-\u9fff\uf900-\ufaff]+|\d+|[\u3400-\u9fff\uf900-\ufaff]")


def words(text: str) -> list[str]:
    """The words of `text`, in order."""
    text = unicodedata.normalize("NFKC", text).lower()
    if "\\" in text:
        text = _FRACTION.sub(r"\\frac \1 ", _UNSEEN.sub(" ", text))
    return _WORD.findall(text)


@dataclass(frozen=True)
class EvaluationItem:
    """One problem to keep out of training."""

    data_source: str
    index: int
    problem: str
    ground_truth: str

    @property
    def name(self) -> str:
        return f"{self.data_source} item {self.index}"


@dataclass(frozen=True)
class Match:
    """The evaluation item that a row overlaps most, and by which share of its n-grams."""

    item: EvaluationItem
    share: float


class Overlaps:
    """An index of evaluation items.

    Args:
        threshold: share of an item's n-grams that a row may have, in [0, 1).

    Raises:
        ValueError: the threshold is outside that.
    """

    def __init__(self, items: Iterable[EvaluationItem], threshold: float = 0.5) -> None:
        if not 0 <= threshold < 1:
            raise ValueError(f"threshold {threshold}: must be at least 0 and below 1")
        self.items = list(items)
        self.threshold = threshold
        self._ngrams: defaultdict[str, list[int]] = defaultdict(list)
        self._sizes: list[int] = []
        self._whole: defaultdict[str, list[int]] = defaultdict(list)
        self._inside: list[tuple[str, int]] = []
        for number, item in enumerate(self.items):
            self._add(number, words(item.problem))

    def _add(self, number: int, text: list[str]) -> None:
        ngrams = set(_ngrams(text))
        self._sizes.append(len(ngrams))
        for ngram in ngrams:
            self._ngrams[ngram].append(number)
        if 0 < len(text) < N:
            self._whole[" ".join(text)].append(number)
            if len(text) >= MIN_WORDS:
                self._inside.append((f" {' '.join(text)} ", number))

    def find(self, problem: str) -> list[Match]:
        """The items that `problem` overlaps, the largest share first."""
        text = words(problem)
        found: Counter[int] = Counter()
        for ngram in set(_ngrams(text)):
            for number in self._ngrams.get(ngram, ()):
                found[number] += 1
        shares = {number: count / self._sizes[number] for number, count in found.items()}
        joined = " ".join(text)
        shares |= dict.fromkeys(self._whole.get(joined, ()), 1.0)
        spaced = f" {joined} "
        shares |= {number: 1.0 for whole, number in self._inside if whole in spaced}
        return sorted(
            (
                Match(self.items[number], share)
                for number, share in shares.items()
                if share > self.threshold
            ),
            key=lambda match: (-match.share, match.item.data_source, match.item.index),
        )


def _ngrams(text: Sequence[str]) -> list[str]:
    return [" ".join(text[start : start + N]) for start in range(len(text) - N + 1)]
