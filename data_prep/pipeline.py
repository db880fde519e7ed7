"""From a source to rows: read, leave out copies, map, and clean, with a reason for every loss."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from tqdm import tqdm

from data_prep.cleaning import is_chinese, needs_image, same_answer, text_key
from data_prep.copies import Copies
from data_prep.dataset import TEST, Dataset
from data_prep.decontamination import Overlaps
from data_prep.fields import Item
from data_prep.schema import SAMPLES, Asking, Rejected, Row
from data_prep.sources import Source, SourceError, count_rows, read

NO_IMAGE, DUPLICATE, CONFLICT = "needs an image", "duplicate", "conflicting answers"
OVERLAP = "overlaps an evaluation item"

REJECTED_SCHEMA = pa.schema(
    [
        ("dataset", pa.string()),
        ("split", pa.string()),
        ("index", pa.int64()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("problem", pa.string()),
        ("original", pa.string()),  # the source's row as JSON
    ]
)


@dataclass
class Candidate:
    """A row that may be kept."""

    dataset: str
    index: int
    item: Item
    row: Row

    @property
    def problem(self) -> str:
        return self.row["extra_info"]["problem"]

    @property
    def ground_truth(self) -> str:
        return self.row.get("reward_model", {}).get("ground_truth", "")


@dataclass
class Split:
    """The rows of one split on their way, and what became of those that are not kept."""

    name: str
    kept: list[Candidate] = field(default_factory=list)
    rejected: list[Row] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)
    overlap: dict[str, dict[str, int]] = field(default_factory=dict)

    def reject(self, candidate: Candidate, reason: str, detail: str) -> None:
        problem = candidate.row.get("extra_info", {}).get("problem")
        self.rejected.append(
            {
                "dataset": candidate.dataset,
                "split": self.name,
                "index": candidate.index,
                "reason": reason,
                "detail": detail,
                "problem": problem,
                "original": json.dumps(candidate.item, default=str),
            }
        )

    def sift(self, stage: Callable[[Candidate], tuple[str, str] | None], title: str) -> None:
        """Reject what `stage` gives a reason and a detail for."""
        kept = []
        for candidate in tqdm(self.kept, desc=f"{self.name}: {title}", unit="row"):
            if found := stage(candidate):
                self.reject(candidate, *found)
            else:
                kept.append(candidate)
        self.kept = kept

    def finish(self) -> None:
        """Order the rejected rows, and count."""
        self.rejected.sort(key=lambda row: row["index"])
        self.counts["rejected"] = dict(
            sorted(Counter(row["reason"] for row in self.rejected).items())
        )
        self.counts["kept"] = len(self.kept)
        self.counts["kept with Chinese text"] = sum(is_chinese(row.problem) for row in self.kept)


def collect(parts: Iterable[tuple[Dataset, Source]], split: str, asking: Asking) -> Split:
    """Read and map the rows of `split`, each once.

    Raises:
        SourceError: a source cannot be read, or has no row.
    """
    result = Split(split)
    total = copies_left_out = 0
    for dataset, source in parts:
        copies = Copies(dataset.forms, dataset.optional)
        candidates: list[Candidate] = []
        for file in source.files:
            if dataset.split_of(source.name(file)) != split:
                continue
            with tqdm(total=count_rows(file), desc=f"{split}: {file.name}", unit="row") as bar:
                for batch in read(file, dataset.forms):
                    for number, item in copies.add(batch):
                        candidate = Candidate(dataset.name, total + number, item, {})
                        try:
                            candidate.row = _map(dataset, candidate, split, asking)
                        except Rejected as why:
                            result.reject(candidate, why.reason, why.detail)
                        else:
                            candidates.append(candidate)
                    bar.update(len(batch))
        if not copies.rows:
            raise SourceError(f"{source.given}: no row in split {split}")
        for candidate in candidates:
            candidate.row["extra_info"]["copies"] = copies.count(candidate.index - total)
        result.kept += candidates
        total += copies.rows
        copies_left_out += copies.rows - copies.distinct
    result.counts = {
        "read": total,
        "copies of another row": copies_left_out,
        "distinct rows": total - copies_left_out,
    }
    return result


def _map(dataset: Dataset, candidate: Candidate, split: str, asking: Asking) -> Row:
    row = dataset.to_row(candidate.item, candidate.index, split, asking)
    if split == TEST:
        row[SAMPLES] = dataset.samples
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise Rejected("not Unicode text", f"lone surrogate at {error.start}") from error
    return row


def leave_out_duplicates(split: Split, same: Callable[[Row], str]) -> None:
    """Keep the first row of those that are the same but for white space.

    Where their answers differ none is kept: nothing says which is right.
    """
    groups: defaultdict[str, list[Candidate]] = defaultdict(list)
    for candidate in split.kept:
        groups[text_key(same(candidate.row))].append(candidate)
    split.counts["distinct problems"] = len(groups)
    reasons: dict[int, tuple[str, str]] = {}
    for rows in groups.values():
        if len(rows) == 1:
            continue
        answers = list(dict.fromkeys(row.ground_truth for row in rows))
        if not all(same_answer(answers[0], other) for other in answers[1:]):
            indices = ", ".join(str(row.index) for row in rows)
            detail = f"rows {indices} answer {', '.join(answers)}"
            reasons |= {row.index: (CONFLICT, detail) for row in rows}
        else:
            reasons |= {row.index: (DUPLICATE, f"of row {rows[0].index}") for row in rows[1:]}
    split.sift(lambda candidate: reasons.get(candidate.index), "duplicates")


def leave_out_images(split: Split) -> None:
    """Keep the rows whose problem points to no image."""

    def stage(candidate: Candidate) -> tuple[str, str] | None:
        image = needs_image(candidate.problem)
        return (NO_IMAGE, image) if image else None

    split.sift(stage, "images")


def decontaminate(split: Split, overlaps: Overlaps) -> None:
    """Keep the rows that overlap no evaluation item, and note the overlap with each set."""
    items: defaultdict[str, set[int]] = defaultdict(set)
    answered: defaultdict[str, set[int]] = defaultdict(set)
    rows: Counter[str] = Counter()

    def stage(candidate: Candidate) -> tuple[str, str] | None:
        matches = overlaps.find(candidate.problem)
        for match in matches:
            item = match.item
            items[item.data_source].add(item.index)
            if same_answer(candidate.ground_truth, item.ground_truth):
                answered[item.data_source].add(item.index)
        rows.update({match.item.data_source for match in matches})
        named = [f"{match.item.name} ({match.share:.0%} of its n-grams)" for match in matches]
        return (OVERLAP, "; ".join(named)) if matches else None

    split.sift(stage, "decontamination")
    for name, size in Counter(item.data_source for item in overlaps.items).items():
        split.overlap[name] = {
            "items": size,
            "items found in training": len(items[name]),
            "of them with the same answer": len(answered[name]),
            "rows rejected": rows[name],
        }


def limit(split: Split, most: int | None, seed: int) -> None:
    """Keep `most` rows, drawn by `seed`, in their order."""
    if most is None or len(split.kept) <= most:
        return
    split.counts["left out by --limit"] = len(split.kept) - most
    chosen = sorted(random.Random(seed).sample(range(len(split.kept)), most))
    split.kept = [split.kept[place] for place in chosen]
