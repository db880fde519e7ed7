"""Copies are found alike in Arrow's batches and in plain rows, and none is lost."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from data_prep.copies import Copies

FORMS = (("prompt", "reward_model"), ("prompt", "target"))
SCHEMA = pa.schema(
    [
        ("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
        ("extra_info", pa.struct([("index", pa.string())])),
    ]
)


def row(problem: str | None, gold: str | None, index: str, messages: int = 1) -> dict[str, Any]:
    return {
        "prompt": [{"role": "user", "content": problem}] * messages,
        "reward_model": {"style": "rule", "ground_truth": gold},
        "extra_info": {"index": index},
    }


ROWS = st.lists(
    st.builds(
        row,
        st.sampled_from(["a", "b", "", None]),
        st.sampled_from(["1", "2", None]),
        st.uuids().map(str),
        st.sampled_from([1, 1, 1, 2]),
    ),
    max_size=12,
)


@given(st.lists(ROWS, max_size=4), st.booleans())
def test_the_first_of_equal_rows_is_passed_on_and_all_are_counted(
    batches: list[list[dict[str, Any]]], arrow: bool
) -> None:
    copies = Copies(FORMS)
    found: list[tuple[int, dict[str, Any]]] = []
    for batch in batches:
        added = pa.RecordBatch.from_pylist(batch, schema=SCHEMA) if arrow else batch
        found += copies.add(added)
    rows = [row for batch in batches for row in batch]
    first: dict[str, int] = {}
    for number, item in enumerate(rows):
        first.setdefault(repr([item["prompt"], item["reward_model"]]), number)
    assert found == [(number, rows[number]) for number in first.values()]
    assert copies.rows == len(rows)
    assert copies.distinct == len(found)
    assert sum(copies.count(number) for number, _ in found) == len(rows)


def test_flat_columns_and_slices_of_batches() -> None:
    table = pa.table(
        {"prompt": ["x", "a", "a", "b"], "target": [1.0, 2.0, 2.0, None], "i": range(4)}
    )
    [batch] = table.to_batches()
    copies = Copies(FORMS)
    assert list(copies.add(batch.slice(1))) == [
        (0, {"prompt": "a", "target": 2.0, "i": 1}),
        (2, {"prompt": "b", "target": None, "i": 3}),
    ]
    assert copies.count(0) == 2


def test_lists_inside_a_slice() -> None:
    rows = [row("a", "1", "0", 2), row("b", "1", "1"), row("b", "1", "2"), row("c", "1", "3")]
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA).slice(1)
    assert list(Copies(FORMS).add(batch)) == [(0, rows[1]), (2, rows[3])]


def test_a_column_that_is_read_where_it_is_there_counts() -> None:
    rows = [{"prompt": "a", "target": "1", "context": c, "i": i} for i, c in enumerate("xyx")]
    for batch in (rows, pa.RecordBatch.from_pylist(rows)):
        assert [number for number, _ in Copies(FORMS, ("context", "unit")).add(batch)] == [0, 1]
