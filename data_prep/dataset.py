"""What a script says of its set: where it is, what its columns are, and how a row is mapped."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from data_prep.fields import Item
from data_prep.schema import SCHEMA, VALIDATION_SCHEMA, Asking, Row
from data_prep.sources import SUFFIXES, Forms

TRAIN, TEST = "train", "test"


@dataclass(frozen=True)
class Dataset:
    """What one script prepares.

    Args:
        name: of the script, and of its folder.
        hub: id of the hub's set.
        files: patterns of that set's files to fetch.
        forms: columns that `to_row` can read, the hub's first.
        optional: columns that it reads where they are there.
        to_row: maps a row of the source, given its number, its split and how to ask.
        splits: which the set has. One set with several has them in its files' names.
        samples: `__rollout_n__` of test rows.
        rows: how many problems a set for evaluation is known to have.
        agent_name: of the rows, by default.
        schema: of the files.
        same: text that is equal for rows that are duplicates.
        unnamed: the split of files whose name does not say it.
    """

    name: str
    hub: str
    files: tuple[str, ...]
    forms: Forms
    to_row: Callable[[Item, int, str, Asking], Row]
    optional: tuple[str, ...] = ()
    splits: tuple[str, ...] = (TRAIN,)
    samples: int = 1
    rows: tuple[int, ...] = ()
    agent_name: str = Asking.agent_name
    schema: pa.Schema = SCHEMA
    same: Callable[[Row], str] = lambda row: row["extra_info"]["problem"]
    unnamed: str | None = None

    def patterns(self, source: str) -> tuple[str, ...]:
        """Patterns of the files to fetch of `source`; another set than ours has other names."""
        ours = source.partition("@")[0] == self.hub
        return self.files if ours else tuple(f"*{suffix}" for suffix in SUFFIXES)

    def split_of(self, file: str) -> str | None:
        """The split that the file of this name belongs to; None if nothing says so."""
        if len(self.splits) == 1:
            return self.splits[0]
        said = {word for word in re.split(r"[^a-z]+", file.lower()) if word in self.splits}
        return said.pop() if len(said) == 1 else self.unnamed

    def schema_of(self, split: str) -> pa.Schema:
        return VALIDATION_SCHEMA if split == TEST else self.schema
