"""The problem and the golds of a row, in the columns that hub sets and their mirrors use."""

import json
from collections.abc import Mapping
from typing import Any

from data_prep.prompts import problem_in
from data_prep.schema import Rejected
from verl_stare.rewards.boxes import last_boxed

Item = Mapping[str, Any]

# verl's own schema, in which most sets are mirrored somewhere.
VERL = ("prompt", "reward_model")


def first(item: Item, *names: str) -> Any:
    """The value of the first of `names` that `item` has and that is not None, else None."""
    return next((item[name] for name in names if item.get(name) is not None), None)


def problem_of(item: Item, *names: str) -> str:
    """The bare problem in the first of the columns `names`, or in verl's `prompt`.

    Raises:
        Rejected: there is none, or it is not text.
    """
    return problem_in(first(item, *names, "prompt"))


def golds_of(item: Item, *names: str) -> list[str]:
    """The golds in verl's `reward_model`, or in the first of the columns `names`.

    Raises:
        Rejected: there is none, or it is of a type that no answer has.
    """
    model = item.get("reward_model")
    return as_golds(model.get("ground_truth") if model else first(item, *names))


def boxed_gold(item: Item, name: str) -> list[str]:
    r"""The gold in the last ``\boxed{}`` of the column `name`.

    Raises:
        Rejected: there is no complete box.
    """
    solution = item.get(name)
    gold = last_boxed(solution) if isinstance(solution, str) else None
    if gold is None:
        raise Rejected("no \\boxed{} in the solution")
    return [gold]


def as_golds(value: Any) -> list[str]:
    """Golds of whatever type as texts; a list, also as JSON text, holds alternatives.

    Raises:
        Rejected: the value is None or of another type than text, number or list of these.
    """
    if value is None:
        raise Rejected("no answer")
    if isinstance(value, str):
        entries = _json_list(value)
        return [_unboxed(value)] if entries is None else list(map(_unboxed, entries))
    if isinstance(value, list):
        return [gold for entry in value for gold in as_golds(entry)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [repr(value)]
    raise Rejected("answer is not text, number or list", f"{type(value).__name__}: {value!r}")


def _unboxed(gold: str) -> str:
    r"""`gold` out of a ``\(...\)``, ``\[...\]`` or ``\boxed{...}`` that is around all of it."""
    gold = gold.strip()
    for before, after in (("\\(", "\\)"), ("\\[", "\\]")):
        inner = gold[2:-2]
        if gold.startswith(before) and gold.endswith(after) and after not in inner:
            gold = inner.strip()
    boxed = last_boxed(gold)
    return boxed if boxed is not None and gold == f"\\boxed{{{boxed}}}" else gold


def _json_list(text: str) -> list[str] | None:
    """The entries of a JSON list of texts, as Skywork writes golds; None if `text` is none."""
    if not text.startswith("["):
        return None
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return None
    # "[1, 2]" is an answer, an interval or a list of numbers; '["1", "2"]' holds two.
    return entries if all(isinstance(entry, str) for entry in entries) else None
