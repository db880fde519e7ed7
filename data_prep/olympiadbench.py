"""OlympiadBench (Hothan/OlympiadBench, OE_TO_maths_en_COMP), 4 samples a problem, as test.parquet.

Of several answers all are asked for: they are one gold, separated by commas. A tolerance is kept
in extra_info.tolerance, a unit in extra_info.unit.
"""

import re
import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file: modules are in the checkout, not in this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from data_prep.command import main
from data_prep.dataset import TEST, Dataset
from data_prep.evaluation import DATA_SOURCES
from data_prep.fields import VERL, Item, first, golds_of, problem_of
from data_prep.schema import Asking, Rejected, Row, prompt_row

_DOLLAR = re.compile(r"(?<!\\)\$")


def to_row(item: Item, index: int, split: str, asking: Asking) -> Row:
    """Map ``question`` (after ``context``) and the entries of ``final_answer``."""
    return prompt_row(
        _problem(item),
        _golds(item),
        data_source=DATA_SOURCES["olympiadbench"],
        index=index,
        split=split,
        asking=asking,
        id=first(item, "id"),
        unit=item.get("unit") or None,
        tolerance=_tolerance(item),
    )


def _problem(item: Item) -> str:
    problem = problem_of(item, "question", "problem")
    context = item.get("context")
    return f"{context}\n\n{problem}" if context else problem


def _golds(item: Item) -> list[str]:
    golds = golds_of(item, "final_answer", "answer")
    return [all_of(gold) for gold in golds] if item.get("is_multiple_answer") else golds


def all_of(gold: str) -> str:
    """`gold`, which lists answers all of which are asked for, as one text ``a, b, c``.

    The blank after a comma tells the list from a number with thousands separators.
    """
    text, depth = [], 0
    for letter in _DOLLAR.sub("", gold):
        depth += (letter in "([{") - (letter in ")]}")
        text.append(", " if letter == "," and depth <= 0 else letter)
    return re.sub(r"\s+", " ", "".join(text)).strip()


def _tolerance(item: Item) -> float | None:
    """The absolute error that is allowed, where the set says so."""
    error = item.get("error")
    if error in (None, ""):
        return None
    try:
        return float(error)
    except (TypeError, ValueError):
        raise Rejected("tolerance is not a number", repr(error)) from None


DATASET = Dataset(
    name="olympiadbench",
    hub="Hothan/OlympiadBench",
    files=("OE_TO_maths_en_COMP/*", "*OE_TO_maths_en_COMP*.parquet"),
    forms=(("question", "final_answer"), ("problem", "answer"), VERL),
    to_row=to_row,
    optional=("context", "is_multiple_answer", "unit", "error"),
    splits=(TEST,),
    samples=4,
    rows=(674, 675),
)


if __name__ == "__main__":
    main("olympiadbench", __doc__, DATASET)
