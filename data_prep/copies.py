"""Rows that a source holds several times over, found without making Python objects of them all."""

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from data_prep.sources import Batch, Forms

Numbered = tuple[int, dict[str, Any]]


class Copies:
    """Passes on each row once: the first of those that are equal in the columns that matter.

    The columns are those of the form the source has, and the `optional` ones among its others; so
    a row number or a uuid makes no row unlike another. Rows are numbered over all that was added.
    """

    def __init__(self, forms: Forms, optional: Sequence[str] = ()) -> None:
        self.rows = 0
        self._forms = forms
        self._optional = optional
        self._seen: dict[bytes, int] = {}
        self._counts: dict[int, int] = {}

    def add(self, batch: Batch) -> Iterator[Numbered]:
        """The rows of `batch` that were not there before, each with its number."""
        start = self.rows
        self.rows += len(batch)
        if isinstance(batch, pa.RecordBatch):
            return self._add_arrow(start, batch)
        return self._add_dicts(start, batch)

    @property
    def distinct(self) -> int:
        """How many different rows there are."""
        return len(self._counts)

    def count(self, row: int) -> int:
        """How often the row with this number was added."""
        return self._counts[row]

    def _key(self, columns: Sequence[str]) -> list[str]:
        """The columns that matter; all of them for a row without a form."""
        form = next((form for form in self._forms if set(form) <= set(columns)), None)
        if form is None:
            return list(columns)
        return [*form, *(name for name in self._optional if name in columns)]

    def _is_new(self, key: Any, row: int, count: int) -> bool:
        digest = blake2b(json.dumps(key, default=str).encode(), digest_size=16).digest()
        first = self._seen.setdefault(digest, row)
        self._counts[first] = self._counts.get(first, 0) + count
        return first == row

    def _add_dicts(self, start: int, batch: Sequence[dict[str, Any]]) -> Iterator[Numbered]:
        for row, item in enumerate(batch, start):
            key = [leaf for name in self._key(list(item)) for leaf in _flat(item.get(name))]
            if self._is_new(key, row, 1):
                yield row, item

    def _add_arrow(self, start: int, batch: pa.RecordBatch) -> Iterator[Numbered]:
        names = self._key(batch.schema.names)
        leaves = [leaf for name in names for leaf in _leaves(batch[name]) or [None]]
        if any(leaf is None for leaf in leaves):
            yield from self._add_dicts(start, batch.to_pylist())
            return
        firsts, counts = _distinct(leaves)
        keys = zip(*[leaf.take(firsts).to_pylist() for leaf in leaves], strict=True)
        numbers = firsts.to_pylist()
        new = [
            number
            for number, count, key in zip(numbers, counts, keys, strict=True)
            if self._is_new(key, start + number, count)
        ]
        items = batch.take(pa.array(new, pa.int64())).to_pylist()
        yield from zip([start + number for number in new], items, strict=True)


def _flat(value: Any) -> list[Any]:
    """`value` as `_leaves` gives it, and as it is where a list has another length than 1."""
    if isinstance(value, dict):
        return [leaf for child in value.values() for leaf in _flat(child)]
    if isinstance(value, list) and len(value) == 1:
        return _flat(value[0])
    return [value]


def _leaves(column: pa.Array) -> list[pa.Array] | None:
    """`column` as flat arrays of its length; None where a list has another length than 1."""
    kind = column.type
    if pa.types.is_struct(kind):
        if column.null_count:
            return None
        children = [_leaves(child) for child in column.flatten()]
        flat = [leaf for child in children for leaf in child or [None]]
        return None if any(leaf is None for leaf in flat) else flat
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if column.null_count or column.value_lengths().unique().to_pylist() != [1]:
            return None
        return _leaves(column.flatten())
    return None if pa.types.is_nested(kind) else [column]


def _distinct(leaves: Sequence[pa.Array]) -> tuple[pa.Array, list[int]]:
    """The first row of each distinct one, ascending, and how many rows are equal to it."""
    names = [str(number) for number in range(len(leaves))]
    table = pa.table([*leaves, pa.array(range(len(leaves[0])), pa.int64())], names=[*names, "row"])
    groups = table.group_by(names, use_threads=False).aggregate([("row", "min"), ("row", "count")])
    groups = groups.sort_by("row_min")
    return groups["row_min"].combine_chunks(), groups["row_count"].to_pylist()
